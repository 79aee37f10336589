import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import type { DatabaseName } from "../../worker/db/availability.ts";

export type { DatabaseName };

/** The databases of a store, by name, with their bindings in `wrangler.toml`. */
export const BINDINGS = { orders: "ORDERS", keys: "KEYS" } as const satisfies Readonly<
  Record<DatabaseName, string>
>;

export const DATABASE_NAMES = ["orders", "keys"] as const satisfies readonly DatabaseName[];

/** A database of a store as the commands use it: a local one or an environment's remote one. */
export interface StoreDatabase {
  /** drizzle over this database. The columns of one result need distinct names. */
  readonly orm: BaseSQLiteDatabase<"async", unknown>;
  /** Runs the statements in order as one transaction: all of them or none. */
  transaction(statements: readonly Statement[]): Promise<void>;
  /**
   * Runs one statement whose effect stays the same if it is sent twice. So a lost connection is
   * tried again. Parameters are bound as text and may have 2 MB; other statements are far smaller.
   */
  storeOnce(statement: Statement): Promise<void>;
  close(): Promise<void>;
}

/** One SQL statement with its bound parameters. int64 values are decimal text with a CAST. */
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
