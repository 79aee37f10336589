import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../wrangler.ts";
import type { DatabaseName } from "./database.ts";

/** The table in which wrangler records applied migrations, as wrangler creates it. */
export const MIGRATIONS_TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

/** Reads the migrations of a database, in the order in which they must be applied. */
export async function readMigrations(
  name: DatabaseName,
): Promise<readonly { readonly file: string; readonly sql: string }[]> {
  const folder = join(PROJECT_ROOT, "migrations", name);
  const files = (await readdir(folder)).filter((file) => file.endsWith(".sql")).toSorted();
  const read = async (file: string) => ({ file, sql: await readFile(join(folder, file), "utf8") });
  return Promise.all(files.map(read));
}
