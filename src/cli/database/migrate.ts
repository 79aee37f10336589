import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import pRetry from "p-retry";
import { PROJECT_ROOT, runWrangler, WranglerError } from "../wrangler.ts";
import type { StoreDatabase } from "./database.ts";
import { isBusy } from "./retry-while-busy.ts";

const RETRIES = 6;

/**
 * Applies the migrations that a local store lacks, through wrangler, which keeps the record of them.
 *
 * @returns whether the store had none before.
 * @throws an Error with wrangler's message, if a migration fails.
 */
export async function migrate(
  orm: StoreDatabase["orm"],
  folder: string,
): Promise<{ isNew: boolean }> {
  const known = (await readdir(join(PROJECT_ROOT, "migrations"))).filter((name) =>
    name.endsWith(".sql"),
  );
  const applied = await appliedMigrations(orm);
  if (hasAll(applied, known)) return { isNew: false };
  await pRetry(() => applyPending(orm, folder, known), {
    retries: RETRIES,
    minTimeout: 200,
    randomize: true,
    shouldRetry: ({ error }) => isBusy(error) || isRace(error),
  });
  return { isNew: applied.size === 0 };
}

async function applyPending(
  orm: StoreDatabase["orm"],
  folder: string,
  known: readonly string[],
): Promise<void> {
  if (hasAll(await appliedMigrations(orm), known)) return;
  try {
    await runWrangler(["d1", "migrations", "apply", "DB", "--local", "--persist-to", folder]);
  } catch (error) {
    if (!(error instanceof WranglerError)) throw error;
    throw new Error(`the store in ${folder} could not be migrated: ${error.message}`, {
      cause: error,
    });
  }
}

async function appliedMigrations(orm: StoreDatabase["orm"]): Promise<ReadonlySet<string>> {
  const tables = await orm
    .select({ name: sql<string>`name` })
    .from(sql`sqlite_master`)
    .where(sql`type = 'table' AND name = 'd1_migrations'`);
  if (tables.length === 0) return new Set();
  const rows = await orm.select({ name: sql<string>`name` }).from(sql`d1_migrations`);
  return new Set(rows.map(({ name }) => name));
}

function hasAll(applied: ReadonlySet<string>, known: readonly string[]): boolean {
  return known.every((name) => applied.has(name));
}

/** Whether another process applied the same migration at the same time. */
function isRace(error: Error): boolean {
  return /already exists|UNIQUE constraint failed: d1_migrations/.test(error.message);
}
