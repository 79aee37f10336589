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
const MAX_FILES_NAMED = 5;

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

/** Returns how to end replication. @throws an Error if the database exists without replication. */
export async function checkReplication(
  api: CloudflareApi,
  { databases: { orders } }: Settings,
): Promise<string | undefined> {
  const database = await findDatabase(api, orders);
  if (database === undefined) return undefined;
  const path = `${api.account}/d1/database/${database.uuid}`;
  const { read_replication: found } = await api.call(path, replicationSchema);
  const how = (mode: string) =>
    `PUT https://api.cloudflare.com/client/v4${path} with {"read_replication":{"mode":"${mode}"}}, ` +
    "or use Cloudflare's dashboard";
  if (found?.mode === "auto") {
    return (
      `Lists come from the nearest replica of ${orders}. To go back, first deploy without ` +
      `LIST_READS, then switch the replication off, which takes up to a day: ${how("disabled")}`
    );
  }
  throw new Error(
    `LIST_READS is nearest, but the database ${orders} is not replicated. To replicate it: ` +
      `${how("auto")}. To switch it off again takes up to a day`,
  );
}

async function checkWorkTree(folder: string): Promise<void> {
  const status = await run(folder, "git", "status", "--porcelain");
  if (status === "") return;
  const files = status.split("\n").map((line) => line.trim().replace(/^\S+\s+/, ""));
  const more = files.length > MAX_FILES_NAMED ? ", ..." : "";
  const named = files.slice(0, MAX_FILES_NAMED).join(", ");
  throw new Error(`not committed: ${named}${more}. In an emergency: --skip-checks`);
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
