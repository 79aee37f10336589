import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { parseConfig } from "../../rules/config.ts";
import type { CloudflareApi } from "../cloudflare-api.ts";
import { findDatabase } from "../database/d1-api.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import { readSettings, type Settings } from "../settings.ts";
import { PROJECT_ROOT } from "../wrangler.ts";
import type { Step } from "./steps.ts";
import { findLiveVersion, type VersionLabel } from "./versions.ts";

const TYPESCRIPT_PACKAGE = createRequire(import.meta.url).resolve("typescript/package.json");
const TSC = join(dirname(TYPESCRIPT_PACKAGE), "bin", "tsc");

/** Returns the checks on this machine. They run no tests: CI deploys only tested commits. */
export function localChecks(env: RemoteEnvironment, folder = PROJECT_ROOT): Step[] {
  const workTree: Step = {
    title: "Check that everything is committed",
    run: () => checkWorkTree(folder),
  };
  const types: Step = {
    title: "Check the Worker's types",
    run: async () =>
      void (await run(folder, process.execPath, TSC, "-p", ".", "--pretty", "false")),
  };
  return env === "production" ? [workTree, types] : [types];
}

/** Reads the settings and checks the vars. */
export async function readCheckedSettings(
  env: RemoteEnvironment,
  folder = PROJECT_ROOT,
): Promise<Settings> {
  const settings = await readSettings(env, folder);
  parseConfig(settings.vars);
  return settings;
}

/** Returns the labels of the commit that is checked out; without git, they are `undefined`. */
export async function labelCommit(folder = PROJECT_ROOT): Promise<VersionLabel> {
  const describe = (...args: string[]) =>
    run(folder, "git", "describe", "--always", "--dirty", ...args).catch(() => undefined);
  return { tag: await describe("--abbrev=40", "--exclude=*"), message: await describe("--tags") };
}

/**
 * @throws an Error unless staging serves this commit after a successful trial. Also throws if this
 *   commit does not contain production's commit, which the deployment would then undo.
 */
export async function checkCommit(
  api: CloudflareApi,
  production: Settings,
  { tag }: VersionLabel,
  folder = PROJECT_ROOT,
): Promise<void> {
  const onStaging = await findLiveVersion(api, await readSettings("staging", folder));
  const tried = onStaging?.commit;
  if (tag === undefined || tried !== tag) {
    throw new Error(
      `staging serves ${tried ?? "no commit"}, and this is ${tag ?? "no commit"}. Deploy this ` +
        "commit to staging first. In an emergency: --skip-checks",
    );
  }
  if (onStaging?.hasPassedTrial !== true) {
    throw new Error(
      "staging serves this commit, but the commit has not passed its trial there. Wait until the " +
        "deployment to staging ends, or repeat it. In an emergency: --skip-checks",
    );
  }
  const live = await findLiveVersion(api, production);
  if (live === undefined) return;
  const served = live.commit?.replace("-dirty", "");
  if (served === undefined) {
    throw new Error(
      `production serves the version ${live.id}, which names no commit. So it is not known whether ` +
        "this commit contains that version's code. If it does: --skip-checks",
    );
  }
  await run(folder, "git", "merge-base", "--is-ancestor", served, "HEAD").catch(() => {
    throw new Error(
      `production serves ${served}, which this commit does not contain. Fetch it, and deploy a ` +
        "commit that contains it. In an emergency: --skip-checks",
    );
  });
}

const replicationSchema = z.object({
  read_replication: z.object({ mode: z.string() }).nullish(),
});

/** @throws an Error unless the orders database exists and is replicated. */
export async function checkReplication(
  api: CloudflareApi,
  { databases: { orders } }: Settings,
): Promise<void> {
  const database = await findDatabase(api, orders);
  const path = `${api.account}/d1/database/${database?.uuid}`;
  const found = database && (await api.call(path, replicationSchema)).read_replication;
  if (found?.mode === "auto") return;
  throw new Error(
    `LIST_READS is nearest, but the database ${orders} is not replicated. Deploy without LIST_READS, ` +
      "and switch on read replication first (docs/operating.md, Near reads)",
  );
}

async function checkWorkTree(folder: string): Promise<void> {
  const status = await run(folder, "git", "status", "--porcelain");
  if (status === "") return;
  throw new Error(`not committed:\n${status}\nIn an emergency: --skip-checks`);
}

/** Returns what a program writes to stdout. @throws an Error with all its output if it fails. */
async function run(folder: string, program: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, args, { cwd: folder });
    return stdout.trim();
  } catch (error) {
    const { stdout = "", stderr = "", message } = error as Error & Partial<Record<string, string>>;
    throw new Error((stdout + stderr).trim() || message, { cause: error });
  }
}
