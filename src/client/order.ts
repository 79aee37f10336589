/** An order. Integer fields are exact int64 values. A field without a value is absent. */
export interface Order {
  readonly id: bigint;
  readonly petId?: bigint;
  readonly quantity?: bigint;
  /** The ship date and time in RFC 3339, in UTC with milliseconds: `2026-11-20T08:30:00.000Z`. */
  readonly shipDate?: string;
  /** Whether the order has been fulfilled. */
  readonly complete?: boolean;
}

/** An order's id: a bigint, a safe integer, or a string in canonical decimal such as `"-42"`. */
export type OrderId = bigint | number | string;

/**
 * The outcome of a cancellation. `cancelled_or_gone`: after an attempt without response or with a 5xx,
 * another found no such order. An attempt or another client cancelled it, or it never existed.
 */
export type Cancellation = "cancelled" | "cancelled_or_gone";

/** One order's outcome. `not_found` and `already_shipped`: the batch did not change the order. */
export interface CancelResult {
  readonly id: bigint;
  readonly outcome: Cancellation | "not_found" | "already_shipped";
}

const FIELD_TYPES: Readonly<Record<keyof Order, string>> = {
  id: "bigint",
  petId: "bigint",
  quantity: "bigint",
  shipDate: "string",
  complete: "boolean",
};

const CANONICAL_DECIMAL = /^(?:0|-?[1-9][0-9]{0,18})$/;

/** Returns whether parsed JSON, with integers as bigints, is an order. Allows unknown fields. */
export function isOrder(value: unknown): value is Order {
  if (typeof value !== "object" || value === null || !("id" in value)) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  return Object.entries(FIELD_TYPES).every(([name, type]) => {
    const field = fields[name];
    return field === undefined || typeof field === type;
  });
}

/** Converts an id to a bigint. Throws a RangeError for a non-int64 or an unsafe `number`. */
export function toOrderId(id: OrderId): bigint {
  const text = String(id);
  const isExact = typeof id !== "number" || Number.isSafeInteger(id);
  if (isExact && CANONICAL_DECIMAL.test(text)) {
    const value = BigInt(text);
    if (BigInt.asIntN(64, value) === value) return value;
  }
  throw new RangeError(
    `Not an order id: ${JSON.stringify(text)}. Expected an integer from -2^63 to 2^63 - 1 in decimal, ` +
      "without leading zeros or a plus sign; above 2^53, a bigint or a string.",
  );
}
