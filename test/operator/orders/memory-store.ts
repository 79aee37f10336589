import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import {
  importOrders,
  type ImportOptions,
  readOrders,
} from "../../../src/operator/orders/import.ts";
import { readMigrations } from "../../support/migration-files.ts";

/** An orders database in memory, for tests with many orders. */
export interface MemoryStore extends StoreDatabase {
  readonly sqlite: DatabaseSync;
  /** Called before each query that is not part of a transaction. */
  beforeQuery: () => void;
}

/**
 * Opens an orders database in memory.
 *
 * @param content a database that SQLite serialized. Default: an empty database with all migrations.
 */
export function openMemoryStore(content?: Uint8Array): MemoryStore {
  const sqlite = new DatabaseSync(":memory:");
  if (content !== undefined) sqlite.deserialize(content);
  else {
    for (const { sql } of readMigrations("orders")) sqlite.exec(sql);
  }
  const rowsOf = (text: string, params: readonly unknown[]) => {
    const statement = sqlite.prepare(text);
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
      sqlite.exec("BEGIN");
      try {
        for (const statement of statements) rowsOf(statement.sql, statement.params);
        sqlite.exec("COMMIT");
      } catch (error) {
        sqlite.exec("ROLLBACK");
        throw error;
      }
    },
    runIdempotent: async ({ sql, params }) => rowsOf(sql, params),
    close: async () => sqlite.close(),
  };
  return store;
}

/** Imports a file with these objects as lines. */
export async function importLines(
  store: StoreDatabase,
  lines: readonly object[],
  options: ImportOptions = {},
): Promise<void> {
  async function* file() {
    yield new TextEncoder().encode(lines.map((line) => JSON.stringify(line)).join("\n"));
  }
  using orders = await readOrders(file());
  await importOrders(store, orders, options);
}
