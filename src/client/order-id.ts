import { INT64_MAX, INT64_MIN, parseInt64 } from "../worker/orders/int64.ts";

/** An order's id: a bigint, a number that is exact, or canonical decimal such as `"-42"`. */
export type OrderId = bigint | number | string;

/**
 * Converts an id to a bigint.
 *
 * @throws {RangeError} if the id is not an int64, or is a number above 2^53, which may have been
 *   rounded.
 */
export function toOrderId(id: OrderId): bigint {
  const isExact = typeof id !== "number" || Number.isSafeInteger(id);
  const parsed = isExact ? parseInt64(String(id)) : undefined;
  if (parsed !== undefined) return parsed;
  const expected = `an integer from ${INT64_MIN} to ${INT64_MAX}`;
  const advice = typeof id === "number" ? "; numbers above 2^53 are rounded: pass a bigint" : "";
  throw new RangeError(
    `Not an order id: ${JSON.stringify(String(id))}. Expected ${expected}${advice}.`,
  );
}
