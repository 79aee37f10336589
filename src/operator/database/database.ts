import type { SQL, SQLWrapper } from "drizzle-orm";
import { type BaseSQLiteDatabase, SQLiteAsyncDialect } from "drizzle-orm/sqlite-core";
import { drizzle } from "drizzle-orm/sqlite-proxy";

export const DATABASE_NAMES = ["orders", "keys"] as const;
export type DatabaseName = (typeof DATABASE_NAMES)[number];

/** The binding of each database in `wrangler.toml`, by the name of the database. */
export const BINDINGS = { orders: "ORDERS", keys: "KEYS" } as const satisfies Readonly<
  Record<DatabaseName, string>
>;

/** The drizzle client of a database. `StoreDatabase.transaction` replaces its transactions. */
export type Orm = Omit<BaseSQLiteDatabase<"async", unknown>, "transaction">;

/** A database of a local store or of a deployed environment. */
export interface StoreDatabase {
  /** The columns of a result must have distinct names. */
  readonly orm: Orm;
  /** Runs one statement of plain SQL, and returns its rows. */
  all<Row>(statement: SQL): Promise<Row[]>;
  /** Runs all statements in order, in one transaction. */
  transaction(statements: readonly SQLWrapper[]): Promise<void>;
  /**
   * Runs one idempotent statement, and retries it if the connection is lost. Accepts
   * parameters of up to 2 MB each. For a deployed database, the other methods write the
   * parameters into the SQL of a statement, whose limit is 100 KB.
   */
  runIdempotent<Row>(statement: SQLWrapper): Promise<Row[]>;
  close(): Promise<void>;
}

/** A statement as drizzle writes it. */
export interface Statement {
  readonly sql: string;
  readonly params: readonly unknown[];
}

const dialect = new SQLiteAsyncDialect();

export function toStatement(query: SQLWrapper): Statement {
  return dialect.sqlToQuery(query.getSQL());
}

/** Returns a drizzle client that runs each statement with `all`. */
export function ormOver(all: (statement: Statement) => Promise<readonly object[]>): Orm {
  return drizzle(async (sql, params, method) => {
    const rows = (await all({ sql, params })).map((row) => Object.values(row) as unknown[]);
    // For `get`, drizzle expects the first row instead of an array of rows.
    return { rows: method === "get" ? (rows[0] as unknown[]) : rows };
  });
}
