import { z } from "zod";
import { type CloudflareApi, CloudflareError } from "../cloudflare-api.ts";
import { findDatabase } from "../database/d1-api.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import type { Settings } from "../settings.ts";

/** What the account has of a service. */
export interface Account {
  /** `undefined` if there is no Worker yet. */
  readonly live: Awaited<ReturnType<typeof findLiveVersion>>;
  /** The databases that do not exist yet. */
  readonly missing: readonly DatabaseName[];
  /** What a deployment creates or takes over, for a question to the operator. */
  readonly creations: readonly string[];
  /** Finds an address of the Worker. @throws an Error if the Worker has none. */
  readonly findAddress: () => Promise<string>;
}

/** Where missing databases are created: near a region, or in a jurisdiction that they never leave. */
export type Place = { readonly [kind in "location" | "jurisdiction"]?: string };

/**
 * The end of a deployment's message, which records that the version has passed its trial with all
 * traffic. A later deployment without this ending, such as a rollback, clears the record.
 */
export const PASSED_TRIAL = ", which has passed its trial";

/** Cloudflare's error codes for a Worker that does not exist. */
const NO_SUCH_WORKER = /\[code: (?:10007|10090)\]/;

const annotations = z.record(z.string(), z.string()).optional();
const deploymentsSchema = z.object({
  deployments: z.array(
    z.object({
      annotations,
      versions: z.array(z.object({ version_id: z.string(), percentage: z.number() })),
    }),
  ),
});
const versionSchema = z.object({
  annotations,
  resources: z.object({
    bindings: z.array(
      z.object({ name: z.string(), id: z.string().optional(), database_id: z.string().optional() }),
    ),
  }),
});
const domainsSchema = z.array(z.object({ hostname: z.string(), service: z.string() }));

/**
 * Finds out what the account has of the service.
 *
 * @throws an Error if `wrangler.toml` names other databases than the Worker uses, if a database is
 *   outside the jurisdiction, if it is not said where missing databases are to be created, or if the
 *   Worker has no address.
 */
export async function lookAtAccount(
  api: CloudflareApi,
  settings: Settings,
  { location, jurisdiction }: Place,
): Promise<Account> {
  const { worker, databases } = settings;
  const live = await findLiveVersion(api, settings);
  const missing: DatabaseName[] = [];
  for (const name of DATABASE_NAMES) {
    const found = await findDatabase(api, databases[name]);
    const used = live?.databases.get(BINDINGS[name]);
    if (live !== undefined && used !== found?.uuid) {
      throw new Error(
        `the Worker ${worker} uses the database ${used ?? "(none)"} as ${BINDINGS[name]}, but ` +
          `${databases[name]} is ${found?.uuid ?? "missing"}. Check its database_name in wrangler.toml`,
      );
    }
    if (found === undefined) missing.push(name);
    else if (jurisdiction !== undefined && found.jurisdiction !== jurisdiction) {
      throw new Error(
        `the database ${databases[name]} exists already, outside the jurisdiction ${jurisdiction}, ` +
          `and no database can move. If it is empty: npx wrangler d1 delete ${databases[name]}`,
      );
    }
  }
  const where = location === undefined ? jurisdiction && `in ${jurisdiction}` : `near ${location}`;
  if (missing.length > 0 && where === undefined) {
    const names = missing.map((name) => databases[name]).join(" and ");
    throw new Error(
      `there is no ${names}: add --location REGION or --jurisdiction NAME to say where to create ` +
        "databases, or check the names in wrangler.toml",
    );
  }
  const existing = DATABASE_NAMES.filter((name) => !missing.includes(name));
  const uses = existing.map((name) => ` on the existing database ${databases[name]}`).join(" and");
  const addresses: readonly string[] = live ? await findAddresses(api, settings) : [];
  const newDomains = settings.customDomains.filter(
    (each) => !addresses.includes(`https://${each}`),
  );
  return {
    live,
    missing,
    creations: [
      ...missing.map((name) => `the database ${databases[name]} ${where}`),
      ...(live === undefined ? [`the Worker ${worker}${uses}`] : []),
      ...newDomains.map((hostname) => `the address ${hostname}, whatever uses it now`),
    ],
    findAddress: async () => addresses[0] ?? (await findAddresses(api, settings))[0],
  };
}

/**
 * Finds the version of a Worker that receives all traffic: its commit, if it was deployed with one,
 * whether it has passed its trial with all traffic, and the ids of its databases by their bindings.
 *
 * @returns `undefined` if the Worker does not exist.
 * @throws an Error if several versions share the traffic.
 */
export async function findLiveVersion(api: CloudflareApi, { env, worker }: Settings) {
  const script = `${api.account}/workers/scripts/${worker}`;
  const found = await api.call(`${script}/deployments`, deploymentsSchema).catch((error) => {
    if (error instanceof CloudflareError && NO_SUCH_WORKER.test(error.reason)) return undefined;
    throw error;
  });
  if (found === undefined) return undefined;
  const [latest] = found.deployments;
  const id = latest?.versions.find(({ percentage }) => percentage === 100)?.version_id;
  if (id === undefined) {
    throw new Error(
      `no version of ${worker} has all traffic. Choose one first: ` +
        `npx wrangler versions deploy VERSION@100% --env ${env}`,
    );
  }
  const version = await api.call(`${script}/versions/${id}`, versionSchema);
  const { bindings } = version.resources;
  return {
    id,
    commit: version.annotations?.["workers/tag"],
    hasPassedTrial: latest?.annotations?.["workers/message"]?.endsWith(PASSED_TRIAL) === true,
    databases: new Map(bindings.map((each) => [each.name, each.id ?? each.database_id])),
  };
}

/**
 * Lists the addresses of a Worker: first its custom domains, then its address on workers.dev.
 *
 * @throws an Error if the Worker has no address.
 */
export async function findAddresses(
  api: CloudflareApi,
  { env, worker }: Settings,
): Promise<readonly [string, ...string[]]> {
  const workers = `${api.account}/workers`;
  const domains = await api.call(`${workers}/domains?service=${worker}`, domainsSchema);
  // Cloudflare may ignore the query.
  const own = domains.filter(({ service }) => service === worker);
  const hostnames = own.map(({ hostname }) => hostname);
  const enabled = z.object({ enabled: z.boolean() });
  if ((await api.call(`${workers}/scripts/${worker}/subdomain`, enabled)).enabled) {
    const found = await api.call(`${workers}/subdomain`, z.object({ subdomain: z.string() }));
    hostnames.push(`${worker}.${found.subdomain}.workers.dev`);
  }
  const [first, ...others] = hostnames.map((hostname) => `https://${hostname}`);
  if (first !== undefined) return [first, ...others];
  throw new Error(
    `${worker} has no address, so a version cannot be tried. Set workers_dev in wrangler.toml, and ` +
      `then run: npx wrangler triggers deploy --env ${env}`,
  );
}
