import { DatabaseSync, type StatementSync } from "node:sqlite";
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
  /** Called before each query through `orm`. */
  beforeQuery: () => void;
}

export function openMemoryStore(): MemoryStore {
  const sqlite = new DatabaseSync(":memory:");
  for (const { sql } of readMigrations("orders")) sqlite.exec(sql);
  const prepared = new Map<string, StatementSync>();
  const run = ({ sql, params }: Statement) => {
    // Preparing a statement with its triggers takes longer than running it on a few orders.
    const statement = prepared.get(sql) ?? sqlite.prepare(sql);
    statement.setReturnArrays(true);
    prepared.set(sql, statement);
    return statement.all(...params) as unknown as unknown[][];
  };
  const store: MemoryStore = {
    sqlite,
    beforeQuery: () => {},
    orm: ormOver(async (statement) => {
      store.beforeQuery();
      return run(statement);
    }),
    transaction: async (statements) => {
      sqlite.exec("SAVEPOINT work");
      try {
        for (const statement of statements) run(toStatement(statement));
      } catch (error) {
        sqlite.exec("ROLLBACK TO work");
        throw error;
      } finally {
        sqlite.exec("RELEASE work");
      }
    },
    close: async () => sqlite.close(),
  };
  return store;
}
