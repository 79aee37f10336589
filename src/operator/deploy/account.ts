import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";
import { connect, findDatabase, isMissingTable, sendQuery } from "../database/d1-api.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import type { Settings } from "../settings.ts";
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

const domainsSchema = z.array(z.object({ hostname: z.string(), service: z.string() }));
const recordsSchema = z.array(z.object({ type: z.string(), content: z.optional(z.string()) }));
const zonesSchema = z.array(z.object({ id: z.string(), name: z.string() }));
const subdomainSchema = z.object({ subdomain: z.string() });
/** The state of a Worker's address on workers.dev. */
export const enabledSchema = z.object({ enabled: z.boolean() });
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

/**
 * Lists the addresses of a Worker: first its custom domains, then its address on workers.dev.
 *
 * @throws an Error if the Worker has no address.
 */
export async function findAddresses(
  api: CloudflareApi,
  { env, worker }: Pick<Settings, "env" | "worker">,
): Promise<readonly [string, ...string[]]> {
  const workers = `${api.account}/workers`;
  const domains = await listDomains(api, `service=${worker}`);
  const { enabled } = await api.call(`${workers}/scripts/${worker}/subdomain`, enabledSchema);
  const addresses = domains
    .filter(({ service }) => service === worker)
    .map(({ hostname }) => `https://${hostname}`);
  if (enabled) {
    const { subdomain } = await api.call(`${workers}/subdomain`, subdomainSchema);
    addresses.push(`https://${worker}.${subdomain}.workers.dev`);
  }
  const [first, ...others] = addresses;
  if (first !== undefined) return [first, ...others];
  throw new Error(
    `${worker} has no address, so a version cannot be tried. Set workers_dev in wrangler.toml, and ` +
      `then run: npx wrangler triggers deploy --env ${env}`,
  );
}

/** Lists domains. Cloudflare may ignore the query, so callers filter the domains again. */
function listDomains(api: CloudflareApi, query: string) {
  return api.call(`${api.account}/workers/domains?${query}`, domainsSchema);
}

/** @throws an Error if another Worker or a DNS record uses a hostname, or no zone contains it. */
export async function checkHostname(api: CloudflareApi, hostname: string, worker: string) {
  const domains = await listDomains(api, `hostname=${hostname}`);
  const service = domains.find((domain) => domain.hostname === hostname)?.service;
  if (service === worker) return;
  if (service !== undefined) {
    throw new Error(`${hostname} is the address of the Worker ${service}. Choose another name`);
  }
  const zone = await findZone(api, hostname);
  const path = `/zones/${zone}/dns_records?name=${encodeURIComponent(hostname)}`;
  const records = await api.call(path, recordsSchema);
  const taken = records.filter(({ type }) => ["A", "AAAA", "CNAME"].includes(type));
  if (taken.length === 0) return;
  const listed = taken.map(({ type, content = "" }) => `${type} ${content}`.trim()).join(", ");
  throw new Error(
    `${hostname} is in use (${listed}). Choose another name, or delete these records`,
  );
}

async function findZone(api: CloudflareApi, hostname: string): Promise<string> {
  const labels = hostname.split(".");
  for (let first = 0; first < labels.length - 1; first += 1) {
    const name = labels.slice(first).join(".");
    const zones = await api.call(`/zones?name=${encodeURIComponent(name)}`, zonesSchema);
    const zone = zones.find((candidate) => candidate.name === name);
    if (zone !== undefined) return zone.id;
  }
  throw new Error(
    `no zone of this login has ${hostname}. Add the zone to Cloudflare, or give the token the ` +
      "permissions Zone: Read and DNS: Read",
  );
}
