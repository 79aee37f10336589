import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../environment.ts";
import type { Settings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";

/** The labels of a version in `wrangler versions list`. */
export interface VersionLabel {
  /** The full hash of the commit. A deployment to production compares it with staging's. */
  readonly tag?: string | undefined;
  /** A readable name of the commit, from `git describe`. */
  readonly message?: string | undefined;
}

/** Builds the environment's Worker as a deployment would, without sending anything. */
export async function checkBuild(environment: RemoteEnvironment): Promise<void> {
  await inTemporaryFolder((folder) =>
    runWrangler(["deploy", "--env", environment, "--dry-run", "--outdir", folder]),
  );
}

/** Uploads the first version of a Worker. This version receives all traffic at once. */
export async function deployFirstVersion(env: RemoteEnvironment, label: VersionLabel) {
  await runWrangler(["deploy", "--env", env, ...labelArguments(label)], { isShielded: true });
}

/**
 * Uploads a version that receives no traffic yet. Its reference page says whether lists can be out
 * of date (the var `LIST_READS`).
 *
 * @returns the id of the version.
 */
export async function uploadVersion({ env, vars }: Settings, label: VersionLabel): Promise<string> {
  const reads = vars["LIST_READS"] === "nearest" ? "nearest" : "primary";
  return inTemporaryFolder(async (folder) => {
    const report = join(folder, "report.ndjson");
    await runWrangler(["versions", "upload", "--env", env, ...labelArguments(label)], {
      env: { WRANGLER_OUTPUT_FILE_PATH: report, LIST_READS: reads },
      isShielded: true,
    });
    const entries = (await readFile(report, "utf8")).trim().split("\n");
    const uploaded = entries
      .map((line) => JSON.parse(line) as { type: string; version_id?: string | null })
      .find(({ type }) => type === "version-upload");
    if (uploaded?.version_id) return uploaded.version_id;
    throw new Error("wrangler did not say which version it uploaded");
  });
}

/**
 * Applies the settings that do not belong to a version: observability, workers.dev, routes and cron
 * triggers. Then reads workers.dev and the cron triggers.
 *
 * @throws an Error if the Worker has other settings afterwards.
 */
export async function applyTriggers(
  api: CloudflareApi,
  { env, worker, unversioned, isOnWorkersDev, crons }: Settings,
): Promise<void> {
  const script = `${api.account}/workers/scripts/${worker}`;
  const settings = { method: "PATCH", body: unversioned } as const;
  await api.call(`${script}/script-settings`, z.unknown(), settings);
  await runWrangler(["triggers", "deploy", "--env", env], { isShielded: true });
  const { schedules } = await api.call(
    `${script}/schedules`,
    z.object({ schedules: z.array(z.object({ cron: z.string() })) }),
  );
  const found = schedules.map(({ cron }) => cron);
  const { enabled } = await api.call(`${script}/subdomain`, z.object({ enabled: z.boolean() }));
  if (enabled !== isOnWorkersDev || found.toSorted().join() !== crons.toSorted().join()) {
    throw new Error("Cloudflare reported success, but workers.dev or the cron triggers differ");
  }
}

function labelArguments({ tag, message }: VersionLabel): string[] {
  return [
    ...(tag === undefined ? [] : [`--tag=${tag}`]),
    ...(message === undefined ? [] : [`--message=${message}`]),
  ];
}

async function inTemporaryFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-deploy-"));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
