import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pRetry from "p-retry";
import { z } from "zod";
import { type CloudflareApi, CloudflareError } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import type { Settings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";

/** The labels of a version: the full hash of its commit, and a name from `git describe`. */
export type VersionLabel = { readonly [label in "tag" | "message"]?: string | undefined };

/** The version of a Worker that receives all traffic. */
export interface LiveVersion {
  readonly id: string;
  /** `undefined` if the version was deployed without a commit. */
  readonly commit: string | undefined;
  /** True if the trial requests of `npm run deploy` succeeded after the version got all traffic. */
  readonly hasPassedTrial: boolean;
  /** The ids of the databases that the version uses, if known, by the names of their bindings. */
  readonly databases: ReadonlyMap<string, string | undefined>;
}

const TEMPORARY_FOLDER = join(tmpdir(), "store-orders-deploy-");

/** Cloudflare's error codes for a Worker that does not exist. */
const NO_SUCH_WORKER = [10007, 10090];

/**
 * The end of a deployment's message, which records that the version has passed its trial with all
 * traffic. A later deployment without this ending, such as a rollback, clears the record.
 */
export const PASSED_TRIAL = ", which has passed its trial";

const deploymentsSchema = z.object({
  deployments: z.array(
    z.object({
      annotations: z.optional(z.object({ "workers/message": z.optional(z.string()) })),
      versions: z.array(z.object({ version_id: z.string(), percentage: z.number() })),
    }),
  ),
});

const bindingSchema = z.object({
  name: z.string(),
  type: z.string(),
  id: z.optional(z.string()),
  database_id: z.optional(z.string()),
});
const versionSchema = z.object({
  annotations: z.optional(z.object({ "workers/tag": z.optional(z.string()) })),
  resources: z.object({ bindings: z.array(bindingSchema) }),
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
  const { annotations: notes, versions = [] } = found.deployments[0] ?? {};
  const id = versions.find(({ percentage }) => percentage === 100)?.version_id;
  if (id === undefined) {
    const shares = versions.map(({ version_id, percentage }) => `${version_id} ${percentage} %`);
    throw new Error(
      `no version of ${worker} has all traffic (${shares.join(", ") || "none is deployed"}). ` +
        `Choose one first: npx wrangler versions deploy VERSION@100% --env ${env}`,
    );
  }
  const { annotations, resources } = await api.call(`${script}/versions/${id}`, versionSchema);
  const databases = resources.bindings
    .filter(({ type }) => type === "d1")
    .map(({ name, id: bound, database_id }) => [name, bound ?? database_id] as const);
  return {
    id,
    commit: annotations?.["workers/tag"],
    hasPassedTrial: notes?.["workers/message"]?.endsWith(PASSED_TRIAL) === true,
    databases: new Map(databases),
  };
}

/**
 * Divides the traffic of a Worker between versions, in up to three attempts. After each attempt,
 * reads what is deployed, because Cloudflare's response can be lost.
 *
 * @param shares percentages by version id. A version with 0 gets only requests that select it.
 * @throws an Error if Cloudflare does not confirm these shares and this message afterwards.
 */
export async function deployVersions(
  api: CloudflareApi,
  { worker, codeUpdateStrategy }: Pick<Settings, "worker" | "codeUpdateStrategy">,
  shares: Readonly<Record<string, number>>,
  message: string,
): Promise<void> {
  const path = `${api.account}/workers/scripts/${worker}/deployments`;
  const versions = Object.entries(shares).map(([version_id, percentage]) => {
    return { version_id, percentage };
  });
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
    if (!isDone || annotations?.["workers/message"] !== message) throw failure;
  };
  await pRetry(attempt, {
    retries: 2,
    minTimeout: 500,
    shouldRetry: ({ error }) => !(error instanceof CloudflareError && error.isRefusal),
  });
}

/** Builds the environment's Worker as a deployment would, without sending anything. */
export async function checkBuild(env: RemoteEnvironment): Promise<void> {
  await using folder = await mkdtempDisposable(TEMPORARY_FOLDER);
  await runWrangler(["deploy", "--env", env, "--dry-run", "--outdir", folder.path]);
}

/** Uploads the first version of a Worker, which receives all traffic at once. */
export function deployFirstVersion(settings: Settings, label: VersionLabel): Promise<void> {
  return upload(["deploy"], settings, label);
}

/** Uploads a version that receives no traffic yet, and returns its id. */
export async function uploadVersion(settings: Settings, label: VersionLabel): Promise<string> {
  await using folder = await mkdtempDisposable(TEMPORARY_FOLDER);
  const report = join(folder.path, "report.ndjson");
  await upload(["versions", "upload"], settings, label, { WRANGLER_OUTPUT_FILE_PATH: report });
  const uploaded = (await readFile(report, "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string; version_id?: string | null })
    .find(({ type }) => type === "version-upload");
  if (uploaded?.version_id) return uploaded.version_id;
  throw new Error("wrangler did not say which version it uploaded");
}

async function upload(
  command: readonly string[],
  { env, vars: { LIST_READS = "primary" } }: Settings,
  label: VersionLabel,
  variables: Readonly<Record<string, string>> = {},
): Promise<void> {
  const labels = Object.entries(label).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  );
  await runWrangler([...command, "--env", env, ...labels], {
    // The build of the reference page reads LIST_READS, to say whether lists can be stale.
    env: { LIST_READS: String(LIST_READS), ...variables },
    isShielded: true,
  });
}
