import { SQL, sql } from "drizzle-orm";

/**
 * A row to be stored. A field such as `createdAt` is the column `created_at`. Times are stored in
 * Unix milliseconds, and objects as JSON. A value of type `SQL` is an expression.
 */
type Row = Readonly<Record<string, unknown>>;

export function insertInto(table: string, row: Row): SQL {
  const columns = columnsOf(row);
  const names = sql.raw(columns.map(([name]) => name).join());
  return sql`INSERT INTO ${sql.raw(table)} (${names}) VALUES (${sql.join(
    columns.map(([, value]) => sql`${value}`),
    sql`, `,
  )})`;
}

/** Returns the SQL between `SET` and `WHERE` that replaces these fields of a row. */
export function assign(row: Row): SQL {
  return sql.join(
    columnsOf(row).map(([name, value]) => sql`${sql.raw(name)} = ${value}`),
    sql`, `,
  );
}

function columnsOf(row: Row): (readonly [name: string, value: unknown])[] {
  return Object.entries(row).map(([field, value]) => {
    return [field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), toSql(value)];
  });
}

/** Converts a value to a parameter of a statement, or to an SQL expression. */
export function toSql(value: unknown): unknown {
  if (value === null || value instanceof SQL) return value;
  if (value instanceof Date) return value.getTime();
  if (typeof value === "boolean") return Number(value);
  // Bound as text, because D1 cannot bind a `BigInt`.
  if (typeof value === "bigint") return sql`CAST(${String(value)} AS INTEGER)`;
  return typeof value === "object" ? JSON.stringify(value) : value;
}
