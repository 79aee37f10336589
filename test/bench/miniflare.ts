import { createRequire } from "node:module";
import { join } from "node:path";
import type * as MiniflarePackage from "miniflare";
import { BINDINGS, type DatabaseName } from "../../src/operator/database/database.ts";
import { hasSingleDatabase, LAYOUT_VERSION } from "../../src/operator/database/local-store.ts";

export type Miniflare = MiniflarePackage.Miniflare;

type Options = Parameters<(typeof MiniflarePackage)["convertV4MiniflareOptions"]>[0];

/**
 * Returns the name of the D1 binding for each database of a store. A store of the baseline commit
 * has a single database for orders and keys.
 */
export function bindingsOf(store: string): Readonly<Record<DatabaseName, string>> {
  return hasSingleDatabase(store) ? { orders: "DB", keys: "DB" } : BINDINGS;
}

/** Starts Miniflare, in the version that wrangler depends on. `npm start` uses the same version. */
export function createMiniflare(store: string, options: Options): Miniflare {
  const { resolve } = createRequire(import.meta.url);
  const requireLikeWrangler = createRequire(resolve("wrangler/package.json"));
  const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = requireLikeWrangler(
    "miniflare",
  ) as typeof MiniflarePackage;
  return new Miniflare(
    convertV4MiniflareOptions({
      ...options,
      d1Databases: [...new Set(Object.values(bindingsOf(store)))],
      resourcePersistencePath: join(store, LAYOUT_VERSION),
      host: "127.0.0.1",
      port: 0,
      cf: false,
      log: new Log(LogLevel.NONE),
    }),
  );
}

/**
 * Runs SQL statements on a database of a store that no service is using.
 *
 * @param statements SQL statements without line breaks, because D1's `exec` splits at line breaks.
 */
export async function executeSql(
  store: string,
  name: DatabaseName,
  statements: readonly string[],
): Promise<void> {
  const script = "export default {};";
  const miniflare = createMiniflare(store, {
    modules: true,
    script,
    handleStructuredLogs: () => {},
  });
  try {
    const database = await miniflare.getD1Database(bindingsOf(store)[name]);
    await database.exec(statements.join("\n"));
  } finally {
    await miniflare.dispose();
  }
}
