import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { PROJECT_ROOT } from "../wrangler.ts";
import type { DatabaseName } from "./database.ts";
import { retryWhileBusy } from "./retry-while-busy.ts";
import { inTransaction } from "./transaction.ts";

/** The table in which wrangler records applied migrations, as wrangler creates it. */
export const MIGRATIONS_TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

interface Migration {
  readonly file: string;
  readonly sql: string;
}

/**
 * Applies the pending migrations of a local database in one transaction, and records them in the
 * table of `wrangler d1 migrations`. Does not run wrangler, which takes seconds to start.
 *
 * @returns true if the database had no migrations before.
 * @throws an Error if a migration fails. The database is then unchanged.
 */
export async function migrate(sqlite: DatabaseSync, name: DatabaseName): Promise<boolean> {
  const migrations = await readMigrations(name);
  const applied = await retryWhileBusy(async () => appliedMigrations(sqlite));
  if (migrations.every(({ file }) => applied.has(file))) return false;
  // As in workerd: a transaction of one process does not block reads of another one.
  await retryWhileBusy(async () => sqlite.exec("PRAGMA journal_mode = WAL"));
  return inTransaction(sqlite, () => applyPending(sqlite, migrations));
}

/** Reads the migrations of a database, in the order in which they must be applied. */
export async function readMigrations(name: DatabaseName): Promise<readonly Migration[]> {
  const folder = join(PROJECT_ROOT, "migrations", name);
  const files = (await readdir(folder)).filter((file) => file.endsWith(".sql")).toSorted();
  const read = async (file: string) => ({ file, sql: await readFile(join(folder, file), "utf8") });
  return Promise.all(files.map(read));
}

function applyPending(sqlite: DatabaseSync, migrations: readonly Migration[]): boolean {
  // Another process may have applied migrations before this transaction began.
  const applied = appliedMigrations(sqlite);
  sqlite.exec(MIGRATIONS_TABLE);
  const record = sqlite.prepare("INSERT INTO d1_migrations (name) VALUES (?)");
  for (const { file, sql } of migrations) {
    if (applied.has(file)) continue;
    sqlite.exec(sql);
    record.run(file);
  }
  return applied.size === 0;
}

function appliedMigrations(sqlite: DatabaseSync): ReadonlySet<string> {
  const names = (sql: string) =>
    sqlite
      .prepare(sql)
      .all()
      .map(({ name }) => String(name));
  const tables = names("SELECT name FROM sqlite_master WHERE name = 'd1_migrations'");
  return new Set(tables.length === 0 ? [] : names("SELECT name FROM d1_migrations"));
}
