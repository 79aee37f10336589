import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BINDINGS } from "../database/database.ts";
import {
  describeFailure,
  isMissingDatabase,
  type RemoteTarget,
} from "../database/remote-failure.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { runWrangler } from "../wrangler.ts";

/** Builds the environment's Worker as a deployment would, without sending anything. */
export async function checkBuild(environment: RemoteEnvironment): Promise<void> {
  await inTemporaryFolder((folder) =>
    runWrangler(["deploy", "--env", environment, "--dry-run", "--outdir", folder]),
  );
}

/** Returns whether an earlier deployment has created a database. */
export async function databaseExists(target: RemoteTarget): Promise<boolean> {
  const probe = ["--remote", "--env", target.environment, "--json", "--command=SELECT 1"];
  try {
    await runWrangler(["d1", "execute", BINDINGS[target.name], ...probe]);
    return true;
  } catch (error) {
    if (isMissingDatabase(error as Error)) return false;
    throw describeFailure(error as Error, target, "reads");
  }
}

/** Applies the migrations that a database lacks. */
export async function applyMigrations({ environment, name }: RemoteTarget): Promise<void> {
  const target = [BINDINGS[name], "--remote", "--env", environment];
  await runWrangler(["d1", "migrations", "apply", ...target]);
}

/**
 * Uploads the Worker, which creates databases that there are not, and sends all traffic to it.
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
