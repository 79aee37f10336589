import { join } from "node:path";
import { z } from "zod";
import { parseConfig } from "../../worker/config.ts";
import { BINDINGS, type DatabaseName } from "../database/database.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { PROJECT_ROOT } from "../wrangler.ts";

/** What `wrangler.toml` says about an environment. */
export interface Settings {
  readonly env: RemoteEnvironment;
  /** The name of the Worker. */
  readonly worker: string;
  /** The names of the databases. */
  readonly databases: Readonly<Record<DatabaseName, string>>;
  /** The last migration of Durable Object classes. */
  readonly migrationTag: string | undefined;
}

/** The part of wrangler's configuration that a deployment looks at. */
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
 * Reads an environment from `wrangler.toml` as wrangler does, and checks its vars as the Worker does.
 *
 * @throws an Error that names what is wrong.
 */
export async function readSettings(
  env: RemoteEnvironment,
  folder = PROJECT_ROOT,
): Promise<Settings> {
  // Only deployments need wrangler in this process, and it is slow to load.
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
