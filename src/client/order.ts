/** An order. Its int64 fields are exact. A field that the order lacks is left out. */
export interface Order {
  readonly id: bigint;
  /** The animal in the order. */
  readonly petId?: bigint;
  /** Units ordered. */
  readonly quantity?: bigint;
  /** RFC 3339 in UTC with three decimals: `2026-11-20T08:30:00.000Z`. */
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
 * Returns whether a JSON value, with integers as bigint, is an order. Unknown fields are allowed.
 */
export function isOrder(value: unknown): value is Order {
  if (typeof value !== "object" || value === null || !("id" in value)) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  return FIELDS.every(([name, type]) => {
    const field = fields[name];
    return field === undefined || typeof field === type;
  });
}
