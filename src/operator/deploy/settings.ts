import { join } from "node:path";
import { z } from "zod";
import { parseConfig } from "../../worker/config.ts";
import { BINDINGS, type DatabaseName } from "../database/database.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { PROJECT_ROOT } from "../wrangler.ts";

/** The settings of an environment in `wrangler.toml`. */
export interface Settings {
  readonly env: RemoteEnvironment;
  /** The name of the Worker. */
  readonly worker: string;
  /** The names of the databases. */
  readonly databases: Readonly<Record<DatabaseName, string>>;
  /** The tag of the last migration of Durable Object classes. */
  readonly migrationTag: string | undefined;
}

/** The part of wrangler's configuration that a deployment reads. */
const configSchema = z.object({
  name: z.string(),
  vars: z.record(z.string(), z.unknown()),
  routes: z.optional(
    z.array(z.union([z.string(), z.object({ custom_domain: z.optional(z.boolean()) })])),
  ),
  d1_databases: z.array(z.object({ binding: z.string(), database_name: z.optional(z.string()) })),
  migrations: z.array(z.object({ tag: z.string() })),
});

/**
 * Reads the settings of an environment with wrangler's own parser, and checks the vars with the
 * parser of the Worker.
 *
 * @throws an Error that names the wrong setting.
 */
export async function readSettings(
  env: RemoteEnvironment,
  folder = PROJECT_ROOT,
): Promise<Settings> {
  // Imports wrangler only when settings are read, because wrangler is slow to load and other
  // commands do not need wrangler in-process.
  const { unstable_readConfig: readConfig } = await import("wrangler");
  const config = configSchema.parse(
    readConfig({ config: join(folder, "wrangler.toml"), env }, { hideWarnings: true }),
  );
  parseConfig(config.vars);
  if (config.routes?.some((route) => typeof route !== "string" && route.custom_domain === true)) {
    throw new Error(
      "wrangler.toml has a route with custom_domain, which wrangler would take over from whatever " +
        "uses it. Remove the route and deploy with --domain NAME, which refuses a name in use",
    );
  }
  const database = (name: DatabaseName) => {
    const found = config.d1_databases.find(({ binding }) => binding === BINDINGS[name]);
    if (found?.database_name !== undefined) return found.database_name;
    throw new Error(`[env.${env}] has no database_name for the binding ${BINDINGS[name]}`);
  };
  return {
    env,
    worker: config.name,
    databases: { orders: database("orders"), keys: database("keys") },
    migrationTag: config.migrations.at(-1)?.tag,
  };
}
