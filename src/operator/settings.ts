import { join } from "node:path";
import { z } from "zod";
import { BINDINGS, type DatabaseName } from "./database/database.ts";
import type { RemoteEnvironment } from "./arguments.ts";
import { PROJECT_ROOT } from "./wrangler.ts";

/** The settings of an environment in `wrangler.toml`. */
export interface Settings {
  readonly env: RemoteEnvironment;
  /** The name of the Worker. */
  readonly worker: string;
  readonly databases: Readonly<Record<DatabaseName, string>>;
  readonly vars: Readonly<Record<string, unknown>>;
  /** The hostnames of routes with `custom_domain`, which wrangler takes over even if in use. */
  readonly customDomains: readonly string[];
}

const configSchema = z.object({
  name: z.string(),
  vars: z.record(z.string(), z.unknown()),
  routes: z
    .array(
      z.union([
        z.string(),
        z.object({ pattern: z.string(), custom_domain: z.optional(z.boolean()) }),
      ]),
    )
    .default([]),
  d1_databases: z.array(z.object({ binding: z.string(), database_name: z.optional(z.string()) })),
});

/** Reads `wrangler.toml` with wrangler's parser. @throws an Error that names the wrong setting. */
export async function readSettings(
  env: RemoteEnvironment,
  folder = PROJECT_ROOT,
): Promise<Settings> {
  // Imported on demand, because wrangler is slow to load.
  const { unstable_readConfig: readConfig } = await import("wrangler");
  const config = configSchema.parse(
    readConfig({ config: join(folder, "wrangler.toml"), env }, { hideWarnings: true }),
  );
  const database = (name: DatabaseName) => {
    const found = config.d1_databases.find(({ binding }) => binding === BINDINGS[name]);
    if (found?.database_name !== undefined) return found.database_name;
    throw new Error(`[env.${env}] has no database_name for the binding ${BINDINGS[name]}`);
  };
  return {
    env,
    worker: config.name,
    databases: { orders: database("orders"), keys: database("keys") },
    vars: config.vars,
    customDomains: config.routes.flatMap((route) =>
      typeof route !== "string" && route.custom_domain ? [route.pattern] : [],
    ),
  };
}
