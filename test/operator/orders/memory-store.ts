import { DatabaseSync, type StatementSync } from "node:sqlite";
import { ormOver, type StoreDatabase, toStatement } from "../../../src/store/database.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import type { DatabaseName } from "../../../src/schema/databases.ts";

export function openMigrated(name: DatabaseName): DatabaseSync {
  const sqlite = new DatabaseSync(":memory:");
  for (const migration of readMigrations(name)) sqlite.exec(migration.sql);
  return sqlite;
}

/** Opens a migrated orders database in memory, for tests with many orders. */
export function openMemoryStore() {
  const sqlite = openMigrated("orders");
  // Preparing a statement with its triggers takes longer than running it on a few orders.
  const prepared = new Map<string, StatementSync>();
  const run = ({ sql, params }: ReturnType<typeof toStatement>) => {
    const statement = prepared.get(sql) ?? sqlite.prepare(sql);
    statement.setReturnArrays(true);
    prepared.set(sql, statement);
    return statement.all(...params) as unknown as unknown[][];
  };
  const orm = ormOver(async (statement) => run(statement));
  /** Returns the store. Calls `before` and `after` at a transaction. */
  const open = (before = () => {}, after = () => {}): StoreDatabase => ({
    orm,
    transaction: async (statements) => {
      before();
      sqlite.exec("SAVEPOINT work");
      try {
        return statements.map(toStatement).map(run);
      } catch (error) {
        sqlite.exec("ROLLBACK TO work");
        throw error;
      } finally {
        sqlite.exec("RELEASE work");
        after();
      }
    },
  });
  return { sqlite, open };
}
