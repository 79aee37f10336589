import { z } from "zod";
import { type CloudflareApi, CloudflareError } from "../cloudflare-api.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import type { Settings } from "./settings.ts";

/** The version of a Worker that gets all traffic. */
export interface LiveVersion {
  readonly id: string;
  /** The commit of the version; `undefined` if it was deployed without one. */
  readonly commit: string | undefined;
  /** The ids of its databases, by the names of the bindings. */
  readonly databases: ReadonlyMap<string, string>;
}

/** Where a database is created: close to a region, or bound to a jurisdiction for ever. */
export type Place = { readonly location: string } | { readonly jurisdiction: string };

/** Cloudflare's codes for a Worker that does not exist. */
const NO_SUCH_WORKER = [10007, 10090];

const deploymentsSchema = z.object({
  deployments: z.array(
    z.object({ versions: z.array(z.object({ version_id: z.string(), percentage: z.number() })) }),
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
 * Finds the version of a Worker that gets all traffic.
 *
 * @returns `undefined` if there is no such Worker.
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
  const versions = found.deployments[0]?.versions ?? [];
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
  return { id, commit: annotations?.["workers/tag"], databases: new Map(databases) };
}

/** A database of the account. */
interface FoundDatabase {
  readonly uuid: string;
  /** What the database never leaves; `null` for a database without such a promise. */
  readonly jurisdiction: string | null;
}

/** Returns a database by its name; `undefined` if there is none of this name. */
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

/** Finds those of an environment's databases that exist, with their jurisdictions. */
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
 * Checks that a deployment leaves the Worker on the databases that it uses, and that it needs no
 * migration of Durable Objects.
 *
 * @throws an Error that says what to mend.
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
