import { z } from "zod";
import { type CloudflareApi, CloudflareError } from "../cloudflare-api.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import type { Settings } from "./settings.ts";

/** The version of a Worker that receives all traffic. */
export interface LiveVersion {
  readonly id: string;
  /** The commit of the version; `undefined` if it was deployed without one. */
  readonly commit: string | undefined;
  /** True if the trial requests of `npm run deploy` succeeded after the version got all traffic. */
  readonly hasPassedTrial: boolean;
  /** The ids of the databases that the version uses, by the names of their bindings. */
  readonly databases: ReadonlyMap<string, string>;
}

/**
 * Where to create a database: near a region, or within a jurisdiction. A database can never move to
 * another jurisdiction.
 */
export type Place = { readonly location: string } | { readonly jurisdiction: string };

/** The error codes that Cloudflare returns for a Worker that does not exist. */
const NO_SUCH_WORKER = [10007, 10090];

/** The suffix that `notePassedTrial` appends to the message of a deployment. */
const PASSED_TRIAL = ", which has passed its trial";

const deploymentsSchema = z.object({
  deployments: z.array(
    z.object({
      annotations: z.optional(z.object({ "workers/message": z.optional(z.string()) })),
      versions: z.array(z.object({ version_id: z.string(), percentage: z.number() })),
    }),
  ),
});

const versionSchema = z.object({
  annotations: z.optional(z.object({ "workers/tag": z.optional(z.string()) })),
  resources: z.object({
    bindings: z.array(
      z.object({
        name: z.string(),
        type: z.string(),
        id: z.optional(z.string()),
        database_id: z.optional(z.string()),
      }),
    ),
  }),
});

const serviceSchema = z.object({
  default_environment: z.object({ script: z.object({ migration_tag: z.optional(z.string()) }) }),
});

/**
 * Finds the version of a Worker that receives all traffic.
 *
 * @returns `undefined` if the Worker does not exist.
 * @throws an Error if several versions share the traffic.
 */
export async function findLiveVersion(
  api: CloudflareApi,
  { env, worker }: Pick<Settings, "env" | "worker">,
): Promise<LiveVersion | undefined> {
  const script = `${api.account}/workers/scripts/${worker}`;
  const found = await api.call(`${script}/deployments`, deploymentsSchema).catch((error) => {
    const codes = error instanceof CloudflareError ? error.codes : [];
    if (codes.some((code) => NO_SUCH_WORKER.includes(code))) return undefined;
    throw error;
  });
  if (found === undefined) return undefined;
  const [deployment] = found.deployments;
  const versions = deployment?.versions ?? [];
  const id = versions.find(({ percentage }) => percentage === 100)?.version_id;
  if (id === undefined) {
    const shares = versions.map(({ version_id, percentage }) => `${version_id} ${percentage} %`);
    throw new Error(
      `no version of ${worker} has all traffic (${shares.join(", ") || "none is deployed"}). ` +
        `Choose one first: npx wrangler versions deploy VERSION@100% --env ${env}`,
    );
  }
  const { annotations, resources } = await api.call(`${script}/versions/${id}`, versionSchema);
  const databases = resources.bindings.flatMap(({ name, type, id: bound, database_id }) => {
    const database = bound ?? database_id;
    return type === "d1" && database !== undefined ? [[name, database] as const] : [];
  });
  const message = deployment?.annotations?.["workers/message"] ?? "";
  return {
    id,
    commit: annotations?.["workers/tag"],
    hasPassedTrial: message.endsWith(PASSED_TRIAL),
    databases: new Map(databases),
  };
}

/**
 * Records that a version has passed its trial with all traffic. The record is a further deployment
 * of the same version, so every other deployment, including a rollback, removes the record.
 */
export async function notePassedTrial(
  api: CloudflareApi,
  { worker }: Pick<Settings, "worker">,
  version: string,
  message: string,
): Promise<void> {
  await api.call(`${api.account}/workers/scripts/${worker}/deployments`, z.unknown(), {
    method: "POST",
    body: {
      strategy: "percentage",
      versions: [{ version_id: version, percentage: 100 }],
      annotations: { "workers/message": `${message}${PASSED_TRIAL}` },
    },
  });
}

/** A database of the account. */
interface FoundDatabase {
  readonly uuid: string;
  /** The jurisdiction that the database never leaves; `null` if it has none. */
  readonly jurisdiction: string | null;
}

/** Finds a database by its name; `undefined` if no database has this name. */
async function findDatabase(api: CloudflareApi, name: string): Promise<FoundDatabase | undefined> {
  const schema = z.array(
    z.object({
      name: z.string(),
      uuid: z.string(),
      jurisdiction: z
        .string()
        .nullish()
        .transform((found) => found ?? null),
    }),
  );
  const path = `${api.account}/d1/database?name=${encodeURIComponent(name)}&page=1&per_page=100`;
  return (await api.call(path, schema)).find((database) => database.name === name);
}

/** Creates an empty database. */
export async function createDatabase(api: CloudflareApi, name: string, place: Place) {
  const body =
    "location" in place
      ? { name, primary_location_hint: place.location }
      : { name, jurisdiction: place.jurisdiction };
  await api.call(`${api.account}/d1/database`, z.unknown(), { method: "POST", body });
}

/** Finds the existing databases of an environment, with their jurisdictions. */
export async function findExistingDatabases(
  api: CloudflareApi,
  { databases }: Settings,
): Promise<ReadonlyMap<DatabaseName, string | null>> {
  const existing = new Map<DatabaseName, string | null>();
  for (const name of DATABASE_NAMES) {
    const found = await findDatabase(api, databases[name]);
    if (found !== undefined) existing.set(name, found.jurisdiction);
  }
  return existing;
}

/**
 * Checks that `wrangler.toml` names the databases that the deployed Worker uses, and that the
 * deployment needs no migration of Durable Object classes.
 *
 * @throws an Error that tells the operator what to correct.
 */
export async function checkLiveWorker(
  api: CloudflareApi,
  { env, worker, databases, migrationTag }: Settings,
  live: LiveVersion,
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
        `commit with nothing but this change: npx wrangler deploy --env ${env}`,
    );
  }
}
