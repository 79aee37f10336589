/** Writes a bigint or a Date as JSON. For `JSON.stringify`, which has called `toJSON` of dates. */
export function encode(this: Record<string, unknown>, key: string, value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: String(value) };
  return this[key] instanceof Date ? { date: value } : value;
}

/** Reads what `encode` has written. For `JSON.parse`. */
export function decode(_key: string, value: any): unknown {
  const names = Object.keys(Object(value)).join();
  if (names === "bigint") return BigInt(value.bigint);
  return names === "date" ? new Date(value.date) : value;
}
