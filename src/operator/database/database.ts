import type { Sql } from "sql-template-tag";

export const DATABASE_NAMES = ["orders", "keys"] as const;
export type DatabaseName = (typeof DATABASE_NAMES)[number];

/** The binding of each database in `wrangler.toml`, by the name of the database. */
export const BINDINGS = { orders: "ORDERS", keys: "KEYS" } as const satisfies Readonly<
  Record<DatabaseName, string>
>;

/** A database of a local store or of a deployed environment. */
export interface StoreDatabase {
  /** Runs one statement, and returns its rows, whose columns must have distinct names. */
  all<Row>(statement: Sql): Promise<Row[]>;
  /** Runs all statements in order, in one transaction. */
  transaction(statements: readonly Sql[]): Promise<void>;
  /**
   * Runs one idempotent statement, and retries it if the connection is lost. Accepts
   * parameters of up to 2 MB each. For a deployed database, `all` and `transaction` write the
   * parameters into the SQL of a statement, whose limit is 100 KB.
   */
  runIdempotent<Row>(statement: Sql): Promise<Row[]>;
  close(): Promise<void>;
}
