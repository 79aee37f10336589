import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BINDINGS } from "../database/database.ts";
import type { RemoteTarget } from "../database/remote-failure.ts";
import type { RemoteEnvironment } from "../environment.ts";
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

/** Applies the migrations that have not been applied to a database yet. */
export async function applyMigrations({ environment, name }: RemoteTarget): Promise<void> {
  const target = [BINDINGS[name], "--remote", "--env", environment];
  await runWrangler(["d1", "migrations", "apply", ...target]);
}

/** Uploads the first version of a Worker. This version receives all traffic at once. */
export async function deployFirstVersion(env: RemoteEnvironment, label: VersionLabel) {
  await runWrangler(["deploy", "--env", env, ...labelArguments(label)]);
}

/**
 * Uploads a version that receives no traffic yet.
 *
 * @returns the id of the version.
 */
export async function uploadVersion(env: RemoteEnvironment, label: VersionLabel): Promise<string> {
  return inTemporaryFolder(async (folder) => {
    const report = join(folder, "report.ndjson");
    await runWrangler(["versions", "upload", "--env", env, ...labelArguments(label)], {
      env: { WRANGLER_OUTPUT_FILE_PATH: report },
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
 * Divides the traffic between versions.
 *
 * @param shares the percentage of the traffic for each version id. With 0, a version can be tried
 *   but receives no other traffic.
 */
export async function divideTraffic(
  env: RemoteEnvironment,
  shares: Readonly<Record<string, number>>,
  message: string,
): Promise<void> {
  const versions = Object.entries(shares).map(([id, percentage]) => `${id}@${percentage}%`);
  await runWrangler([
    "versions",
    "deploy",
    ...versions,
    "--env",
    env,
    "--yes",
    `--message=${message}`,
  ]);
}

/** Applies the settings that do not belong to a version: workers.dev, routes and cron triggers. */
export async function applyTriggers(env: RemoteEnvironment): Promise<void> {
  await runWrangler(["triggers", "deploy", "--env", env]);
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
