import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import type * as MiniflarePackage from "miniflare";
import {
  BINDINGS,
  DATABASE_NAMES,
  type DatabaseName,
  type Statement,
  type StoreDatabase,
} from "./database.ts";
import { hasSingleDatabase, LAYOUT_VERSION } from "./local-store.ts";
import { migrate } from "./migrate.ts";
import { retryWhileBusy } from "./retry-while-busy.ts";
import { runStatements, STATEMENT_WORKER } from "./statement-worker.ts";

/**
 * A statement that takes SQLite's write lock and changes nothing. Must run before every SELECT. The
 * local D1 writes a bookmark after each statement, which fails if another process wrote during the
 * statement. Without the lock, a long SELECT would always fail while the service is busy.
 */
const TAKE_LOCK: Statement = { sql: "DELETE FROM d1_migrations WHERE false", params: [] };

/** A database of a store on this machine. */
interface LocalDatabase extends StoreDatabase {
  /** True if no migration had been applied before the database was opened. */
  readonly isNew: boolean;
}

/** Both databases of a store on this machine. */
export type LocalStore = Readonly<Record<DatabaseName, LocalDatabase>> & AsyncDisposable;

/** Opens both databases of a local store as `openLocalDatabase` does. */
export async function openLocalStore(persistTo: string): Promise<LocalStore> {
  const opening = DATABASE_NAMES.map((name) => openLocalDatabase(persistTo, name));
  const close = async () => {
    for (const opened of await Promise.allSettled(opening)) {
      if (opened.status === "fulfilled") await opened.value.close();
    }
  };
  try {
    const [orders, keys] = (await Promise.all(opening)) as [LocalDatabase, LocalDatabase];
    return { orders, keys, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Opens a database of a local store and applies its pending migrations. The service may run on the
 * same store. A statement waits while the service holds SQLite's lock.
 *
 * @param persistTo the folder of the store. Creates the folder if it is missing.
 * @throws an Error if the folder cannot be created or holds a store of an earlier version, or if a
 *   migration fails.
 */
export async function openLocalDatabase(
  persistTo: string,
  name: DatabaseName,
): Promise<LocalDatabase> {
  const folder = resolve(persistTo);
  if (hasSingleDatabase(folder)) {
    throw new Error(
      `the store in ${folder} was made by an earlier version, with orders and keys in one database. ` +
        "Nothing was changed. Export its orders with that version and import them into a new store, " +
        "in another folder (--persist-to) or after you have moved this one away; create its keys anew",
    );
  }
  await mkdir(folder, { recursive: true });
  const miniflare = await retryWhileBusy(() => startMiniflare(folder, BINDINGS[name]));
  try {
    const d1 = await miniflare.getD1Database(BINDINGS[name]);
    const isNew = await migrate(d1, name, folder);
    const run = (statements: readonly Statement[]) =>
      retryWhileBusy(() => runStatements(miniflare, statements));
    const orm = drizzle(async (sql, params, method) => {
      const results = await run([TAKE_LOCK, { sql, params }]);
      const rows = (results[1] ?? []).map((row) => Object.values(row));
      // For `get`, drizzle expects the first row instead of an array of rows.
      return { rows: method === "get" ? (rows[0] as unknown[]) : rows };
    });
    return {
      isNew,
      orm,
      transaction: async (statements) => {
        if (statements.length > 0) await run(statements);
      },
      storeOnce: async (statement) => void (await run([statement])),
      close: () => miniflare.dispose(),
    };
  } catch (error) {
    await miniflare.dispose();
    throw error;
  }
}

/**
 * Starts only the database, in the Miniflare that wrangler depends on, so that both use the same
 * file format. wrangler's `getPlatformProxy` would also run the alarms of the limiters' Durable
 * Objects, whose class is not available here.
 */
async function startMiniflare(
  folder: string,
  binding: string,
): Promise<MiniflarePackage.Miniflare> {
  const { resolve: resolveModule } = createRequire(import.meta.url);
  const requireLikeWrangler = createRequire(resolveModule("wrangler/package.json"));
  const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = requireLikeWrangler(
    "miniflare",
  ) as typeof MiniflarePackage;
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: STATEMENT_WORKER,
      d1Databases: [binding],
      resourcePersistencePath: join(folder, LAYOUT_VERSION),
      cf: false,
      log: new Log(LogLevel.NONE),
      // Drops workerd's logs, because every failure is also thrown as an error.
      handleStructuredLogs: () => {},
    }),
  );
  try {
    await miniflare.ready;
    return miniflare;
  } catch (error) {
    await miniflare.dispose().catch(() => {});
    throw error;
  }
}
