import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type { SQLWrapper } from "drizzle-orm";
import {
  ormOver,
  type Statement,
  type StoreDatabase,
  toStatement,
} from "../../../src/operator/database/database.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";

/** An orders database in memory, for tests with many orders. */
export interface MemoryStore extends StoreDatabase {
  readonly sqlite: DatabaseSync;
  /** Called before each query through `all`. */
  beforeQuery: () => void;
}

export function openMemoryStore(): MemoryStore {
  const sqlite = new DatabaseSync(":memory:");
  for (const { sql } of readMigrations("orders")) sqlite.exec(sql);
  const prepared = new Map<string, StatementSync>();
  const run = ({ sql: text, params }: Statement) => {
    // Preparing a statement with its triggers takes longer than running it on a few orders.
    const statement = prepared.get(text) ?? sqlite.prepare(text);
    prepared.set(text, statement);
    return statement.all(...(params as SQLInputValue[]));
  };
  const store: MemoryStore = {
    sqlite,
    beforeQuery: () => {},
    orm: ormOver(async (statement) => {
      store.beforeQuery();
      return run(statement);
    }),
    all: async <Row>(statement: SQLWrapper) => {
      store.beforeQuery();
      return run(toStatement(statement)) as Row[];
    },
    transaction: async (statements) => {
      sqlite.exec("SAVEPOINT work");
      try {
        statements.map(toStatement).forEach(run);
      } catch (error) {
        sqlite.exec("ROLLBACK TO work");
        throw error;
      } finally {
        sqlite.exec("RELEASE work");
      }
    },
    runIdempotent: async <Row>(query: SQLWrapper) => run(toStatement(query)) as Row[],
    close: async () => sqlite.close(),
  };
  return store;
}
