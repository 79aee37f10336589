import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import type { RemoteEnvironment } from "./arguments.ts";
import { PROJECT_ROOT } from "./wrangler.ts";
import { type Config, parseConfig, VAR_NAMES } from "../rules/config.ts";
import { BINDINGS, type DatabaseName } from "../schema/databases.ts";

export type Settings = Awaited<ReturnType<typeof readSettings>>;

/** A line that sets a var, or a comment, or empty: what wrangler understands in `.dev.vars`. */
const LINE = /^\s*(?:#.*|(?:export\s+)?[\w.-]+\s*=.*)?$/;

/** The part of wrangler's configuration that the commands read. wrangler has checked its types. */
interface WranglerConfig {
  readonly name: string;
  readonly account_id?: string;
  readonly vars: Readonly<Record<string, unknown>>;
  /** A route can also be a string, which has no `custom_domain`. */
  readonly routes?: readonly { readonly pattern: string; readonly custom_domain?: boolean }[];
  readonly d1_databases: readonly { readonly binding: string; readonly database_name?: string }[];
}

/** Reads the top level of `wrangler.toml` or one of its environments, with wrangler's parser. */
async function readConfig(folder: string, env?: RemoteEnvironment): Promise<WranglerConfig> {
  // Imported on demand, because wrangler is slow to load.
  const { unstable_readConfig: read } = await import("wrangler");
  return read({ config: join(folder, "wrangler.toml"), env }, { hideWarnings: true });
}

/** Reads an environment of `wrangler.toml`. @throws an Error that names the wrong setting. */
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

/**
 * Reads vars strictly: the Worker ignores unknown ones, so a mistyped name would leave the default in
 * force. @throws an Error for the operator that names every unknown or invalid var, and their `place`.
 */
export function checkVars(vars: Readonly<Record<string, unknown>>, place: string): Config {
  const unknown = Object.keys(vars).filter((name) => !VAR_NAMES.includes(name));
  if (unknown.length === 0) return parseConfig(vars);
  const faults = unknown.map((name) => `${name} (did you mean ${nearestTo(name)}?)`);
  throw new Error(`the service has no var ${faults.join(" and no var ")}: see ${place}`);
}

/** Checks the local service's vars as `checkVars` does, and that each line of `.dev.vars` sets one. */
export async function checkLocalVars(folder = PROJECT_ROOT): Promise<void> {
  checkVars((await readConfig(folder)).vars, "[vars] in wrangler.toml");
  const text = await readFile(join(folder, ".dev.vars"), "utf8").catch(() => "");
  const wrong = text.split(/\r?\n/).findIndex((line) => !LINE.test(line));
  if (wrong >= 0) throw new Error(`.dev.vars, line ${wrong + 1}: expected NAME=value`);
  const { jurisdiction } = checkVars(parseEnv(text), ".dev.vars");
  if (jurisdiction === undefined) return;
  throw new Error(".dev.vars: only a deployed environment can have a JURISDICTION");
}

/** Returns the var that shares most pairs of neighbouring letters with a name (Dice's coefficient). */
function nearestTo(name: string): string | undefined {
  const pairsOf = (text: string) => [...text.matchAll(/(?=(..))/g)].map(([, pair]) => pair);
  const own = pairsOf(name.toUpperCase());
  const likeness = (known: string) => {
    const pairs = pairsOf(known);
    return own.filter((pair) => pairs.includes(pair)).length / (own.length + pairs.length);
  };
  return VAR_NAMES.toSorted((one, other) => likeness(other) - likeness(one))[0];
}
