import { z } from "zod";
import { type CloudflareApi, CloudflareError } from "../cloudflare-api.ts";
import { findDatabase } from "../database/remote.ts";
import type { Settings } from "../settings.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../../schema/databases.ts";

/** Where missing databases are created: near a region, or in a jurisdiction that they never leave. */
type Place = { readonly [kind in "location" | "jurisdiction"]: string | undefined };

/**
 * The end of a deployment's message, which records that the version has passed its trial with all
 * traffic. A later deployment without this ending, such as a rollback, clears the record.
 */
export const PASSED_TRIAL = ", which has passed its trial";

/** Cloudflare's error codes for a Worker that does not exist. */
const NO_SUCH_WORKER = /\[code: (?:10007|10090)\]/;

const annotations = z.record(z.string(), z.string()).optional();
const sharesSchema = z.array(z.object({ version_id: z.string(), percentage: z.number() }));
const deploymentSchema = z.object({ annotations, versions: sharesSchema });
const deploymentsSchema = z.object({ deployments: z.array(deploymentSchema) });
const uuid = z.string().optional();
const bindingsSchema = z.array(
  // `text` is the value of a var.
  z.object({ name: z.string(), id: uuid, database_id: uuid, text: z.string().optional() }),
);
const versionSchema = z.object({ annotations, resources: z.object({ bindings: bindingsSchema }) });
const domainsSchema = z.array(z.object({ hostname: z.string(), service: z.string() }));
const enabledSchema = z.object({ enabled: z.boolean() });
const subdomainSchema = z.object({ subdomain: z.string() });

/**
 * Finds out what the account has of the service.
 *
 * @returns the version that serves, the databases that do not exist, the consequences that the operator
 *   must confirm, and a function that finds the Worker's address.
 * @throws an Error if `wrangler.toml` names other databases than the Worker uses, if a database is in
 *   another jurisdiction, if it is not said where missing databases are to be created, or if the Worker
 *   has no address.
 */
export async function lookAtAccount(
  api: CloudflareApi,
  settings: Settings,
  { location, jurisdiction }: Place,
) {
  const { worker, databases, customDomains } = settings;
  const live = await findLiveVersion(api, settings);
  const missing: DatabaseName[] = [];
  for (const name of DATABASE_NAMES) {
    const found = await findDatabase(api, databases[name]);
    if (live !== undefined && live.databases.get(BINDINGS[name]) !== found?.uuid) {
      throw new Error(
        `the Worker ${worker} uses another database as ${BINDINGS[name]} than ${databases[name]}: ` +
          "check its database_name in wrangler.toml",
      );
    }
    if (found === undefined) missing.push(name);
    else if (found.jurisdiction !== (jurisdiction ?? null)) {
      throw new Error(
        `the database ${databases[name]} is in ${describe(found.jurisdiction)}, the var JURISDICTION ` +
          `says ${describe(jurisdiction)}, and no database can move. Change the var, or if the ` +
          `database is empty: npx wrangler d1 delete ${databases[name]}`,
      );
    }
  }
  if (location !== undefined && jurisdiction !== undefined) {
    throw new Error(`leave out --location: databases are created in ${describe(jurisdiction)}`);
  }
  const place = location ?? jurisdiction;
  const created = missing.map((name) => `the database ${databases[name]} in ${place}`);
  if (missing.length > 0 && place === undefined) {
    throw new Error(
      `there is no ${missing.map((name) => databases[name]).join(" and ")} in the account ` +
        `${await api.describeAccount()}: say where to create databases (--location REGION, or the var ` +
        "JURISDICTION), or check the names in wrangler.toml and the account",
    );
  }
  if (live === undefined) created.push(`the Worker ${worker}`);
  else await findAddress(api, settings);
  const domains = live === undefined ? [] : await findDomains(api, settings);
  const others = customDomains.filter((each) => !domains.includes(each));
  created.push(...others.map((hostname) => `the address ${hostname}, whatever uses it now`));
  const consequences = created.length > 0 ? [`This creates ${created.join(", ")}.`] : [];
  if (live !== undefined && live.jurisdiction !== jurisdiction) {
    consequences.push(
      `The limiters move from ${describe(live.jurisdiction)} to ${describe(jurisdiction)}: all ` +
        "counts begin anew, and bans end.",
    );
  }
  return { live, missing, consequences, findAddress: () => findAddress(api, settings) };
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
    jurisdiction: bindings.find(({ name }) => name === "JURISDICTION")?.text,
    databases: new Map(bindings.map((each) => [each.name, each.id ?? each.database_id])),
  };
}

/**
 * Finds an address of a Worker: a custom domain if it has one, or else its address on workers.dev.
 *
 * @throws an Error if the Worker has no address.
 */
export async function findAddress(api: CloudflareApi, settings: Settings): Promise<string> {
  const { env, worker } = settings;
  const [domain] = await findDomains(api, settings);
  if (domain !== undefined) return `https://${domain}`;
  const workers = `${api.account}/workers`;
  if ((await api.call(`${workers}/scripts/${worker}/subdomain`, enabledSchema)).enabled) {
    const { subdomain } = await api.call(`${workers}/subdomain`, subdomainSchema);
    return `https://${worker}.${subdomain}.workers.dev`;
  }
  throw new Error(
    `${worker} has no address, so a version cannot be tried. Set workers_dev in wrangler.toml, and ` +
      `then run: npx wrangler triggers deploy --env ${env}`,
  );
}

async function findDomains(api: CloudflareApi, { worker }: Settings): Promise<string[]> {
  const domains = await api.call(`${api.account}/workers/domains?service=${worker}`, domainsSchema);
  // Cloudflare may ignore the query.
  return domains.filter(({ service }) => service === worker).map(({ hostname }) => hostname);
}

function describe(jurisdiction: string | null | undefined): string {
  return jurisdiction == null ? "no jurisdiction" : `the jurisdiction ${jurisdiction}`;
}
