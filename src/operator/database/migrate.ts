import type { D1Database } from "@cloudflare/workers-types";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import pRetry from "p-retry";
import { PROJECT_ROOT, runWrangler, WranglerError } from "../wrangler.ts";
import { BINDINGS, type DatabaseName } from "./database.ts";
import { isBusy, retryWhileBusy } from "./retry-while-busy.ts";

const RETRIES = 6;

/**
 * Applies the pending migrations of a local database with wrangler, which also records them. Runs
 * wrangler only if migrations are pending, because wrangler takes seconds to start.
 *
 * @returns true if the database had no migrations before.
 * @throws an Error with wrangler's message if a migration fails.
 */
export async function migrate(
  d1: D1Database,
  name: DatabaseName,
  folder: string,
): Promise<boolean> {
  const files = await readdir(join(PROJECT_ROOT, "migrations", name));
  const known = files.filter((file) => file.endsWith(".sql"));
  const applied = await appliedMigrations(d1);
  if (hasAll(applied, known)) return false;
  await pRetry(() => applyPending(d1, name, folder, known), {
    retries: RETRIES,
    minTimeout: 200,
    randomize: true,
    shouldRetry: ({ error }) => isBusy(error) || isRace(error),
  });
  return applied.size === 0;
}

async function applyPending(
  d1: D1Database,
  name: DatabaseName,
  folder: string,
  known: readonly string[],
): Promise<void> {
  if (hasAll(await appliedMigrations(d1), known)) return;
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

async function appliedMigrations(d1: D1Database): Promise<ReadonlySet<string>> {
  const names = (sql: string) =>
    retryWhileBusy(async () => {
      const { results } = await d1.prepare(sql).all<{ name: string }>();
      return results.map(({ name }) => name);
    });
  const tables = await names("SELECT name FROM sqlite_master WHERE name = 'd1_migrations'");
  return new Set(tables.length === 0 ? [] : await names("SELECT name FROM d1_migrations"));
}

function hasAll(applied: ReadonlySet<string>, known: readonly string[]): boolean {
  return known.every((name) => applied.has(name));
}

/** Returns whether another process applied the same migration at the same time. */
function isRace(error: Error): boolean {
  return /already exists|UNIQUE constraint failed: d1_migrations/.test(error.message);
}
