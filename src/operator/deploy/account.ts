import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";
import { findDatabase } from "../database/remote.ts";
import type { Settings } from "../settings.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../../schema/databases.ts";

/** The end of a deployment's message after a trial with all traffic. A rollback clears this record. */
export const PASSED_TRIAL = ", which has passed its trial";

/** Cloudflare's error codes for a Worker that does not exist. */
const NO_SUCH_WORKER = /\[code: (?:10007|10090)\]/;

const string = z.string();
const annotations = z.record(string, string).optional();
const versions = z.array(z.object({ version_id: string, percentage: z.number() }));
const deploymentsSchema = z.object({ deployments: z.array(z.object({ annotations, versions })) });
// `text` is the value of a var.
const value = { text: string.optional(), id: string.optional(), database_id: string.optional() };
const bindings = z.array(z.object({ name: string, ...value }));
const versionSchema = z.object({ annotations, resources: z.object({ bindings }) });
const domainsSchema = z.array(z.object({ hostname: string, service: string }));
const enabledSchema = z.object({ enabled: z.boolean() });
const subdomainSchema = z.object({ subdomain: string });

/**
 * Finds the version that serves, the databases that do not exist, and what the operator must confirm.
 *
 * @throws an Error if a deployment would use other databases than the Worker, or cannot be tried.
 */
export async function lookAtAccount(
  api: CloudflareApi,
  settings: Settings,
  { location, jurisdiction }: Readonly<Record<"location" | "jurisdiction", string | undefined>>,
) {
  const { worker, databases, customDomains } = settings;
  const live = await findLiveVersion(api, settings);
  const missing: DatabaseName[] = [];
  for (const name of DATABASE_NAMES) {
    const found = await findDatabase(api, databases[name]);
    if (live && live.bound.get(BINDINGS[name]) !== found?.uuid) {
      throw new Error(
        `the Worker ${worker} uses another database as ${BINDINGS[name]} than ${databases[name]}: ` +
          "check its database_name in wrangler.toml",
      );
    }
    if (found === undefined) missing.push(name);
    else if ((found.jurisdiction ?? undefined) !== jurisdiction) {
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
  if (missing.length > 0 && place === undefined) {
    throw new Error(
      `there is no ${missing.map((name) => databases[name]).join(" and ")} in the account ` +
        `${await api.describeAccount()}: say where to create databases (--location REGION, or the var ` +
        "JURISDICTION), or check the names in wrangler.toml and the account",
    );
  }
  if (live) await findAddress(api, settings);
  const domains = live ? await findDomains(api, settings) : [];
  const others = customDomains.filter((each) => !domains.includes(each));
  const created = [
    ...missing.map((name) => `the database ${databases[name]} in ${place}`),
    ...(live ? [] : [`the Worker ${worker}`]),
    ...others.map((hostname) => `the address ${hostname}, whatever uses it now`),
  ];
  const consequences = created.length > 0 ? [`This creates ${created.join(", ")}.`] : [];
  const former = live?.bound.get("JURISDICTION");
  if (live && former !== jurisdiction) {
    consequences.push(
      `The limiters move from ${describe(former)} to ${describe(jurisdiction)}: all counts begin ` +
        "anew, and bans end.",
    );
  }
  return { live, missing, consequences };
}

/**
 * Finds the version of a Worker that has all traffic; `undefined` if there is no such Worker. `bound`
 * has the values of vars and the ids of databases. @throws an Error if versions share the traffic.
 */
export async function findLiveVersion(api: CloudflareApi, { env, worker }: Settings) {
  const script = `/workers/scripts/${worker}`;
  const found = await api.call(`${script}/deployments`, deploymentsSchema).catch((error: Error) => {
    if (!NO_SUCH_WORKER.test(error.message)) throw error;
  });
  if (!found) return undefined;
  const [latest] = found.deployments;
  const id = latest?.versions.find(({ percentage }) => percentage === 100)?.version_id;
  if (id === undefined) {
    throw new Error(
      `no version of ${worker} has all traffic. Choose one first: ` +
        `npx wrangler versions deploy VERSION@100% --env ${env}`,
    );
  }
  const version = await api.call(`${script}/versions/${id}`, versionSchema);
  const bound = version.resources.bindings.map(
    (each) => [each.name, each.text ?? each.id ?? each.database_id] as const,
  );
  return {
    id,
    commit: version.annotations?.["workers/tag"],
    hasPassedTrial: latest?.annotations?.["workers/message"]?.endsWith(PASSED_TRIAL) === true,
    bound: new Map(bound),
  };
}

/** Finds a Worker's custom domain, or else its address on workers.dev. @throws if it has neither. */
export async function findAddress(api: CloudflareApi, settings: Settings): Promise<string> {
  const { env, worker } = settings;
  const [domain] = await findDomains(api, settings);
  if (domain !== undefined) return `https://${domain}`;
  if ((await api.call(`/workers/scripts/${worker}/subdomain`, enabledSchema)).enabled) {
    const { subdomain } = await api.call("/workers/subdomain", subdomainSchema);
    return `https://${worker}.${subdomain}.workers.dev`;
  }
  throw new Error(
    `${worker} has no address, so a version cannot be tried. Set workers_dev in wrangler.toml, and ` +
      `then run: npx wrangler triggers deploy --env ${env}`,
  );
}

async function findDomains(api: CloudflareApi, { worker }: Settings): Promise<string[]> {
  const domains = await api.call(`/workers/domains?service=${worker}`, domainsSchema);
  // Cloudflare may ignore the query.
  return domains.filter(({ service }) => service === worker).map(({ hostname }) => hostname);
}

function describe(jurisdiction: string | null | undefined): string {
  return jurisdiction == null ? "no jurisdiction" : `the jurisdiction ${jurisdiction}`;
}
