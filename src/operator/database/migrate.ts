import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import pRetry from "p-retry";
import { PROJECT_ROOT, runWrangler, WranglerError } from "../wrangler.ts";
import { BINDINGS, type DatabaseName } from "./database.ts";
import { isBusy, retryWhileBusy } from "./retry-while-busy.ts";

const RETRIES = 6;

/** Opens the file of a local database; `null` if the file does not exist yet. */
type OpenFile = () => DatabaseSync | null;

/**
 * Applies the pending migrations of a local database with wrangler, which also records them. Runs
 * wrangler only if migrations are pending, because wrangler takes seconds to start.
 *
 * @returns true if the database had no migrations before.
 * @throws an Error with wrangler's message if a migration fails.
 */
export async function migrate(
  open: OpenFile,
  name: DatabaseName,
  folder: string,
): Promise<boolean> {
  const files = await readdir(join(PROJECT_ROOT, "migrations", name));
  const known = files.filter((file) => file.endsWith(".sql"));
  const applied = await appliedMigrations(open);
  if (hasAll(applied, known)) return false;
  await pRetry(() => applyPending(open, name, folder, known), {
    retries: RETRIES,
    minTimeout: 200,
    randomize: true,
    shouldRetry: ({ error }) => isBusy(error) || isRace(error),
  });
  return applied.size === 0;
}

async function applyPending(
  open: OpenFile,
  name: DatabaseName,
  folder: string,
  known: readonly string[],
): Promise<void> {
  if (hasAll(await appliedMigrations(open), known)) return;
  try {
    const target = [BINDINGS[name], "--local", "--persist-to", folder];
    await runWrangler(["d1", "migrations", "apply", ...target]);
  } catch (error) {
    if (!(error instanceof WranglerError)) throw error;
    throw new Error(`the store in ${folder} could not be migrated: ${error.message}`, {
      cause: error,
    });
  }
}

async function appliedMigrations(open: OpenFile): Promise<ReadonlySet<string>> {
  return retryWhileBusy(async () => {
    const sqlite = open();
    if (sqlite === null) return new Set();
    try {
      const names = (sql: string) =>
        sqlite
          .prepare(sql)
          .all()
          .map(({ name }) => String(name));
      const tables = names("SELECT name FROM sqlite_master WHERE name = 'd1_migrations'");
      return new Set(tables.length === 0 ? [] : names("SELECT name FROM d1_migrations"));
    } finally {
      sqlite.close();
    }
  });
}

function hasAll(applied: ReadonlySet<string>, known: readonly string[]): boolean {
  return known.every((name) => applied.has(name));
}

/** Returns whether another process applied the same migration at the same time. */
function isRace(error: Error): boolean {
  return /already exists|UNIQUE constraint failed: d1_migrations/.test(error.message);
}
