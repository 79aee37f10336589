import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseName } from "../../src/worker/db/availability.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "migrations");

/** A migration file of one of the databases. */
export interface MigrationFile {
  readonly name: string;
  readonly sql: string;
}

/** Reads the migrations of a database, the oldest first. */
export function readMigrations(database: DatabaseName): MigrationFile[] {
  return readdirSync(join(FOLDER, database))
    .filter((file) => file.endsWith(".sql"))
    .toSorted()
    .map((name) => ({ name, sql: readFileSync(join(FOLDER, database, name), "utf8") }));
}
