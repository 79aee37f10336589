import pRetry from "p-retry";
import { z } from "zod";
import { type CloudflareApi, CloudflareError } from "../cloudflare-api.ts";
import { findDatabase } from "../database/d1-api.ts";
import { BINDINGS, DATABASE_NAMES } from "../database/database.ts";
import type { Settings } from "../settings.ts";
import type { VersionLabel } from "./wrangler-steps.ts";

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
 * Divides the traffic of a Worker between versions, and reads what is deployed afterwards, because
 * an answer of Cloudflare can be lost. Tries up to three times.
 *
 * @param shares the percentage of the traffic for each version id. With 0, a version can be tried
 *   but receives no other traffic.
 * @throws an Error if the traffic is not divided like this afterwards, or nobody knows.
 */
export async function deployVersions(
  api: CloudflareApi,
  { worker, codeUpdateStrategy }: Pick<Settings, "worker" | "codeUpdateStrategy">,
  shares: Readonly<Record<string, number>>,
  message: string,
): Promise<void> {
  const path = `${api.account}/workers/scripts/${worker}/deployments`;
  const versions = Object.entries(shares).map(([version_id, percentage]) => ({
    version_id,
    percentage,
  }));
  const body = {
    strategy: "percentage",
    versions,
    annotations: { "workers/message": message },
    code_update_strategy: codeUpdateStrategy,
  };
  const attempt = async () => {
    const failure = await api.call(path, z.unknown(), { method: "POST", body }).then(
      () => new Error("Cloudflare reported success, but the deployment is another one"),
      (error: Error) => error,
    );
    const { deployments } = await api.call(path, deploymentsSchema);
    const { annotations, versions: found } = deployments[0] ?? {};
    const isDone = found?.every(({ version_id, percentage }) => shares[version_id] === percentage);
    if (isDone !== true || annotations?.["workers/message"] !== message) throw failure;
  };
  await pRetry(attempt, {
    retries: 2,
    minTimeout: 500,
    shouldRetry: ({ error }) => !(error instanceof CloudflareError && error.isRefusal),
  });
}

/**
 * Records that a version has passed its trial with all traffic. The record is a further deployment
 * of the same version, so every other deployment, including a rollback, removes the record.
 */
export async function notePassedTrial(
  api: CloudflareApi,
  settings: Settings,
  version: string,
  message: string,
): Promise<void> {
  await deployVersions(api, settings, { [version]: 100 }, `${message}${PASSED_TRIAL}`);
}

/** Creates an empty database. */
export async function createDatabase(api: CloudflareApi, name: string, place: Place) {
  const body =
    "location" in place
      ? { name, primary_location_hint: place.location }
      : { name, jurisdiction: place.jurisdiction };
  await api.call(`${api.account}/d1/database`, z.unknown(), { method: "POST", body });
}

const replicationSchema = z.object({
  read_replication: z.object({ mode: z.string() }).nullish(),
});

async function checkReplicated(api: CloudflareApi, name: string, uuid: string): Promise<void> {
  const path = `${api.account}/d1/database/${uuid}`;
  const { read_replication: found } = await api.call(path, replicationSchema);
  if (found?.mode === "auto") return;
  throw new Error(
    `LIST_READS is nearest, but the database ${name} is not replicated. To replicate it: ` +
      `PUT https://api.cloudflare.com/client/v4${path} with {"read_replication":{"mode":"auto"}}, ` +
      "or use Cloudflare's dashboard. To switch it off again takes up to a day",
  );
}

/**
 * Checks that `wrangler.toml` names the databases that the deployed Worker uses, and that the
 * deployment needs no migration of Durable Object classes.
 *
 * @throws an Error that tells the operator what to correct.
 */
export async function checkLiveWorker(
  api: CloudflareApi,
  { env, worker, databases, migrationTag, vars }: Settings,
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
    if (name === "orders" && vars["LIST_READS"] === "nearest") {
      await checkReplicated(api, databases[name], named);
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
