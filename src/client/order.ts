/** An order. Integer fields are exact int64 values. A field without a value is absent. */
export interface Order {
  readonly id: bigint;
  /** The id of the ordered animal. */
  readonly petId?: bigint;
  /** The number of units ordered. */
  readonly quantity?: bigint;
  /** The ship date and time in RFC 3339, in UTC with milliseconds: `2026-11-20T08:30:00.000Z`. */
  readonly shipDate?: string;
  /** Whether the order has been fulfilled. */
  readonly complete?: boolean;
}

type FieldType = "bigint" | "string" | "boolean";

const FIELD_TYPES: Readonly<Record<keyof Order, FieldType>> = {
  id: "bigint",
  petId: "bigint",
  quantity: "bigint",
  shipDate: "string",
  complete: "boolean",
};

const FIELDS = Object.entries(FIELD_TYPES);

/**
 * Returns whether a parsed JSON value is an order. Integers must be parsed as bigint. Unknown
 * fields are allowed.
 */
export function isOrder(value: unknown): value is Order {
  if (typeof value !== "object" || value === null || !("id" in value)) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  return FIELDS.every(([name, type]) => {
    const field = fields[name];
    return field === undefined || typeof field === type;
  });
}
