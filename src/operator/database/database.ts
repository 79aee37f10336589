import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";

export const DATABASE_NAMES = ["orders", "keys"] as const;
export type DatabaseName = (typeof DATABASE_NAMES)[number];

/** The binding of each database in `wrangler.toml`, by the name of the database. */
export const BINDINGS = { orders: "ORDERS", keys: "KEYS" } as const satisfies Readonly<
  Record<DatabaseName, string>
>;

/** A database of a local store or of a deployed environment. */
export interface StoreDatabase {
  /** The drizzle client of this database. The columns of a result must have distinct names. */
  readonly orm: BaseSQLiteDatabase<"async", unknown>;
  /** Runs all statements in order, in one transaction. */
  transaction(statements: readonly Statement[]): Promise<void>;
  /**
   * Runs one idempotent statement, and retries it if the connection is lost. Its parameters may have
   * 2 MB as text. Remotely, `orm` and `transaction` write parameters into the SQL, at most 100 KB.
   *
   * @returns the rows, whose columns must have distinct names.
   */
  runIdempotent(statement: Statement): Promise<unknown[][]>;
  close(): Promise<void>;
}

/** An SQL statement with its bound parameters. An int64 is bound as decimal text and cast in SQL. */
export interface Statement {
  readonly sql: string;
  readonly params: readonly (string | number | null)[];
}

/** Converts drizzle's queries into statements for `transaction`. */
export function toStatements(
  queries: readonly { toSQL(): { readonly sql: string; readonly params: unknown[] } }[],
): Statement[] {
  return queries.map((query) => {
    const { sql, params } = query.toSQL();
    return { sql, params: params as Statement["params"] };
  });
}
