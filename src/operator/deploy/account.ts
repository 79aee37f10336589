import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";
import { connect, findDatabase, isMissingTable, sendQuery } from "../database/d1-api.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import type { Settings } from "../settings.ts";
import { findAddresses } from "./addresses.ts";
import { print, type RollOut } from "./steps.ts";
import { findLiveVersion, type LiveVersion, type VersionLabel } from "./versions.ts";

/** What the account has of a service. */
export interface Account {
  /** The version that serves; `undefined` if there is no Worker yet. */
  readonly live?: LiveVersion;
  /** The addresses of the Worker, if there is one. */
  readonly addresses?: readonly string[];
  /** The databases that do not exist yet. */
  readonly missing: readonly DatabaseName[];
}

const serviceSchema = z.object({
  default_environment: z.object({ script: z.object({ migration_tag: z.optional(z.string()) }) }),
});

/**
 * Finds out what the account has of the service. A Worker must be able to run this commit.
 *
 * @throws an Error if a database holds data but no Worker uses it, or is outside the jurisdiction, or
 *   if it is not said where missing databases are to be created.
 */
export async function lookAtAccount(rollOut: RollOut): Promise<Account> {
  const { env, settings, api, label, location, jurisdiction } = rollOut;
  const { worker, databases } = settings;
  const live = await findLiveVersion(api, settings);
  if (live !== undefined) {
    await checkLiveWorker(api, settings, live, label);
    return { live, addresses: await findAddresses(api, settings), missing: [] };
  }
  const missing: DatabaseName[] = [];
  for (const name of DATABASE_NAMES) {
    const found = await findDatabase(api, databases[name]);
    if (found === undefined) {
      missing.push(name);
      continue;
    }
    if (!(await isEmpty(env, name))) {
      throw new Error(
        `there is no Worker ${worker}, but the database ${databases[name]} holds data. Check the ` +
          "names in wrangler.toml: a first roll-out begins with empty databases",
      );
    }
    if (jurisdiction !== undefined && found.jurisdiction !== jurisdiction) {
      throw new Error(
        `the database ${databases[name]} exists already, outside the jurisdiction ` +
          `${jurisdiction}. No database can move. It is empty: npx wrangler d1 delete ${databases[name]}`,
      );
    }
    print(`The database ${databases[name]} exists already, and stays where it is.`);
  }
  // The place has no default, because it cannot be changed later.
  if (missing.length > 0 && (location ?? jurisdiction) === undefined) {
    const names = missing.map((name) => databases[name]).join(" and ");
    throw new Error(
      `there is no ${names}: add --location REGION or --jurisdiction NAME to say where to create ` +
        "databases, or check the names in wrangler.toml",
    );
  }
  return { missing };
}

/**
 * @throws an Error if `wrangler.toml` does not name the databases that the deployed Worker uses, or
 *   if the deployment needs a migration of Durable Object classes.
 */
async function checkLiveWorker(
  api: CloudflareApi,
  { env, worker, databases, migrationTag }: Settings,
  live: LiveVersion,
  { tag }: VersionLabel,
): Promise<void> {
  for (const name of DATABASE_NAMES) {
    const used = live.databases.get(BINDINGS[name]);
    const named = (await findDatabase(api, databases[name]))?.uuid;
    if (named === undefined) {
      throw new Error(
        `the Worker ${worker} exists, but there is no database ${databases[name]}. Check its ` +
          "database_name in wrangler.toml: a new database would be an empty one",
      );
    }
    if (named !== used) {
      throw new Error(
        `the Worker ${worker} uses the database ${used ?? "(none)"} as ${BINDINGS[name]}, but ` +
          `${databases[name]} is ${named}. Check its database_name in wrangler.toml`,
      );
    }
  }
  const service = await api.call(`${api.account}/workers/services/${worker}`, serviceSchema);
  const appliedTag = service.default_environment.script.migration_tag;
  if (appliedTag !== migrationTag) {
    throw new Error(
      `wrangler.toml has the migration ${migrationTag} of Durable Objects, and ${worker} has ` +
        `${appliedTag ?? "none"}. Such a migration cannot be tried first or taken back. Deploy a ` +
        `commit with nothing but this change: npx wrangler deploy --env ${env} --tag ${tag ?? "COMMIT"}`,
    );
  }
}

async function isEmpty(env: RemoteEnvironment, name: DatabaseName): Promise<boolean> {
  const tables = name === "orders" ? ["orders", "cancelled_orders"] : ["api_keys", "key_changes"];
  const database = await connect({ env, name });
  try {
    for (const table of tables) {
      const rows = await sendQuery(database, "reads", { sql: `SELECT 1 FROM ${table} LIMIT 1` });
      if (rows.length > 0) return false;
    }
    return true;
  } catch (error) {
    if (isMissingTable(error)) return true;
    throw error;
  }
}
