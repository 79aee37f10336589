import { INT64_MAX, INT64_MIN, parseInt64 } from "../worker/orders/int64.ts";

/** An order's id: a bigint, a number that is exact, or canonical decimal such as `"-42"`. */
export type OrderId = bigint | number | string;

/**
 * The id as a bigint.
 *
 * @throws {RangeError} for what names no int64, or a number that may have been rounded (above 2^53).
 */
export function toOrderId(id: OrderId): bigint {
  const isExact = typeof id !== "number" || Number.isSafeInteger(id);
  const parsed = isExact ? parseInt64(String(id)) : undefined;
  if (parsed !== undefined) return parsed;
  const expected = `an integer from ${INT64_MIN} to ${INT64_MAX}`;
  const advice = typeof id === "number" ? "; numbers beyond 2^53 are rounded: pass a bigint" : "";
  throw new RangeError(
    `Not an order id: ${JSON.stringify(String(id))}. Expected ${expected}${advice}.`,
  );
}
