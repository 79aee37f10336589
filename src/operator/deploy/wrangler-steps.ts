import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeFailure, isMissingDatabase } from "../database/remote-failure.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { runWrangler } from "../wrangler.ts";

/** Builds the environment's Worker as a deployment would, without sending anything. */
export async function checkBuild(environment: RemoteEnvironment): Promise<void> {
  await inTemporaryFolder((folder) =>
    runWrangler(["deploy", "--env", environment, "--dry-run", "--outdir", folder]),
  );
}

/** Returns whether an earlier deployment has created the environment's database. */
export async function databaseExists(environment: RemoteEnvironment): Promise<boolean> {
  const probe = ["--remote", "--env", environment, "--json", "--command=SELECT 1"];
  try {
    await runWrangler(["d1", "execute", "DB", ...probe]);
    return true;
  } catch (error) {
    if (isMissingDatabase(error as Error)) return false;
    throw describeFailure(error as Error, environment, "reads");
  }
}

/** Applies the migrations that the environment's database lacks. */
export async function applyMigrations(environment: RemoteEnvironment): Promise<void> {
  await runWrangler(["d1", "migrations", "apply", "DB", "--remote", "--env", environment]);
}

/**
 * Uploads the Worker, which creates the database if there is none, and sends all traffic to it.
 *
 * @param commit the message of the version in `wrangler versions list`.
 * @returns the addresses on workers.dev and custom domains, where all of the service answers.
 */
export async function deployWorker(
  environment: RemoteEnvironment,
  commit: string | undefined,
): Promise<readonly string[]> {
  const label = commit === undefined ? [] : [`--message=${commit}`];
  return inTemporaryFolder(async (folder) => {
    const report = join(folder, "report.ndjson");
    await runWrangler(["deploy", "--env", environment, ...label], {
      env: { WRANGLER_OUTPUT_FILE_PATH: report },
    });
    const entries = (await readFile(report, "utf8")).trim().split("\n");
    const deployed = entries
      .map((line) => JSON.parse(line) as { type: string; targets?: string[] })
      .find(({ type }) => type === "deploy");
    return (deployed?.targets ?? []).flatMap(toAddress);
  });
}

/** Picks the addresses from wrangler's targets, among which are also routes and schedules. */
function toAddress(target: string): string[] {
  if (target.startsWith("https://")) return [target];
  const domain = /^(\S+) \(custom domain/.exec(target)?.[1];
  return domain === undefined ? [] : [`https://${domain}`];
}

async function inTemporaryFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-deploy-"));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
