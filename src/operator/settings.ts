import { join } from "node:path";
import type { RemoteEnvironment } from "./arguments.ts";
import { PROJECT_ROOT } from "./wrangler.ts";
import { BINDINGS, type DatabaseName } from "../schema/databases.ts";

export type Settings = Awaited<ReturnType<typeof readSettings>>;

/** The part of wrangler's configuration that the commands read. wrangler has checked its types. */
interface Config {
  readonly name: string;
  readonly account_id?: string;
  readonly vars: Readonly<Record<string, unknown>>;
  /** A route can also be a string, which has no `custom_domain`. */
  readonly routes?: readonly { readonly pattern: string; readonly custom_domain?: boolean }[];
  readonly d1_databases: readonly { readonly binding: string; readonly database_name?: string }[];
}

/** Reads the top level of `wrangler.toml` or one of its environments, with wrangler's parser. */
export async function readConfig(folder: string, env?: RemoteEnvironment): Promise<Config> {
  // Imported on demand, because wrangler is slow to load.
  const { unstable_readConfig: read } = await import("wrangler");
  return read({ config: join(folder, "wrangler.toml"), env }, { hideWarnings: true });
}

/**
 * Reads the settings of an environment from `wrangler.toml`.
 *
 * @throws an Error that names the wrong setting.
 */
export async function readSettings(env: RemoteEnvironment, folder = PROJECT_ROOT) {
  const config = await readConfig(folder, env);
  const database = (wanted: DatabaseName) => {
    const found = config.d1_databases.find(({ binding }) => binding === BINDINGS[wanted]);
    if (found?.database_name !== undefined) return found.database_name;
    throw new Error(`[env.${env}] has no database_name for the binding ${BINDINGS[wanted]}`);
  };
  return {
    env,
    /** Preferred to `CLOUDFLARE_ACCOUNT_ID`, as wrangler does. */
    accountId: config.account_id,
    worker: config.name,
    databases: { orders: database("orders"), keys: database("keys") },
    vars: config.vars,
    /** The hostnames of routes with `custom_domain`, which wrangler takes over even if in use. */
    customDomains: (config.routes ?? []).flatMap((route) =>
      route.custom_domain ? [route.pattern] : [],
    ),
  };
}
