/** An order's id: a bigint, a safe integer, or a string in canonical decimal such as `"-42"`. */
export type OrderId = bigint | number | string;

const CANONICAL_DECIMAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

/**
 * Converts an id to a bigint.
 *
 * @throws {RangeError} if the id is not an int64, or is a `number` that is not a safe integer and
 *   so may have been rounded.
 */
export function toOrderId(id: OrderId): bigint {
  const text = String(id);
  const isExact = typeof id !== "number" || Number.isSafeInteger(id);
  if (isExact && CANONICAL_DECIMAL.test(text)) {
    const value = BigInt(text);
    if (BigInt.asIntN(64, value) === value) return value;
  }
  const advice = typeof id === "number" ? "; numbers above 2^53 are rounded: pass a bigint" : "";
  throw new RangeError(
    `Not an order id: ${JSON.stringify(text)}. Expected an integer from -2^63 to 2^63 - 1${advice}.`,
  );
}
