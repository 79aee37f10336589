import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";

/** An orders database in memory, for tests with many orders. */
export interface MemoryStore extends StoreDatabase {
  readonly sqlite: DatabaseSync;
  /** Called before each query that is not part of a transaction. */
  beforeQuery: () => void;
}

/** Opens an empty orders database in memory. */
export function openMemoryStore(): MemoryStore {
  const sqlite = new DatabaseSync(":memory:");
  for (const { sql } of readMigrations("orders")) sqlite.exec(sql);
  const prepared = new Map<string, StatementSync>();
  const rowsOf = (text: string, params: readonly unknown[]) => {
    // Preparing a statement with its triggers takes longer than running it on a few orders.
    const statement = prepared.get(text) ?? sqlite.prepare(text);
    prepared.set(text, statement);
    statement.setReturnArrays(true);
    return statement.all(...(params as SQLInputValue[])) as unknown as unknown[][];
  };
  const store: MemoryStore = {
    sqlite,
    beforeQuery: () => {},
    orm: drizzle(async (text, params, method) => {
      store.beforeQuery();
      const rows = rowsOf(text, params);
      return { rows: method === "get" ? (rows[0] as unknown[]) : rows };
    }),
    transaction: async (statements) => {
      sqlite.exec("SAVEPOINT work");
      try {
        for (const statement of statements) rowsOf(statement.sql, statement.params);
      } catch (error) {
        sqlite.exec("ROLLBACK TO work");
        throw error;
      } finally {
        sqlite.exec("RELEASE work");
      }
    },
    runIdempotent: async ({ sql, params }) => rowsOf(sql, params),
    close: async () => sqlite.close(),
  };
  return store;
}
