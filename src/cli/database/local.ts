import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import type * as MiniflarePackage from "miniflare";
import type { Statement, StoreDatabase } from "./database.ts";
import { LAYOUT_VERSION } from "./local-store.ts";
import { migrate } from "./migrate.ts";
import { retryWhileBusy } from "./retry-while-busy.ts";

const BINDING = "DB";

/** A store on this machine. */
export interface LocalDatabase extends StoreDatabase {
  /** Whether the store had no migrations before it was opened. */
  readonly isNew: boolean;
}

/**
 * Opens the database of a local store and applies the migrations it lacks. The service may run on
 * the same store meanwhile: where it holds the lock, each statement waits for its turn.
 *
 * @param persistTo the folder that `wrangler dev --persist-to` names; made if it is missing.
 * @throws an Error if the folder cannot be made or a migration fails.
 */
export async function openLocalDatabase(persistTo: string): Promise<LocalDatabase> {
  const folder = resolve(persistTo);
  await mkdir(folder, { recursive: true });
  const miniflare = startMiniflare(folder);
  try {
    const d1 = await miniflare.getD1Database(BINDING);
    const prepare = ({ sql, params }: Statement) => d1.prepare(sql).bind(...params);
    const orm = drizzle(async (sql, params, method) => {
      const rows = await retryWhileBusy(() => prepare({ sql, params }).raw<unknown[]>());
      // For `get` drizzle takes the row itself, or nothing where there is none.
      return { rows: method === "get" ? (rows[0] as unknown[]) : rows };
    });
    const { isNew } = await migrate(orm, folder);
    return {
      isNew,
      orm,
      transaction: async (statements) => {
        if (statements.length > 0) await retryWhileBusy(() => d1.batch(statements.map(prepare)));
      },
      close: () => miniflare.dispose(),
    };
  } catch (error) {
    await miniflare.dispose();
    throw error;
  }
}

/**
 * Only the database, in the Miniflare that wrangler brings, so that both read the store alike.
 * wrangler's `getPlatformProxy` would also run the alarms of the rate limiter's objects, whose class
 * it does not have.
 */
function startMiniflare(folder: string): MiniflarePackage.Miniflare {
  const { resolve: resolveModule } = createRequire(import.meta.url);
  const requireLikeWrangler = createRequire(resolveModule("wrangler/package.json"));
  const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = requireLikeWrangler(
    "miniflare",
  ) as typeof MiniflarePackage;
  return new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: "",
      d1Databases: [BINDING],
      resourcePersistencePath: join(folder, LAYOUT_VERSION),
      cf: false,
      log: new Log(LogLevel.NONE),
    }),
  );
}
