import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT_ROOT } from "../wrangler.ts";
import type { DatabaseName } from "../../schema/databases.ts";

/** The statement with which wrangler creates its table of applied migrations. */
export const MIGRATIONS_TABLE =
  "CREATE TABLE IF NOT EXISTS d1_migrations(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE," +
  " applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)";

/** Reads the migrations of a database, in the order in which they must be applied. */
export function readMigrations(database: DatabaseName) {
  const folder = join(PROJECT_ROOT, "migrations", database);
  const names = readdirSync(folder).filter((name) => name.endsWith(".sql"));
  return names.toSorted().map((name) => ({ name, sql: readFileSync(join(folder, name), "utf8") }));
}
