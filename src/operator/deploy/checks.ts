import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { parseConfig } from "../../worker/config.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { PROJECT_ROOT } from "../wrangler.ts";
import { findLiveVersion } from "./account.ts";
import { readSettings, type Settings } from "../settings.ts";
import type { RollOut, Step } from "./steps.ts";
import type { VersionLabel } from "./wrangler-steps.ts";

const TYPESCRIPT_PACKAGE = createRequire(import.meta.url).resolve("typescript/package.json");
const TSC = join(dirname(TYPESCRIPT_PACKAGE), "bin", "tsc");
const MAX_FILES_NAMED = 5;

/**
 * Returns the checks that run on this machine before anything is sent. For production they require
 * that all changes are committed; for every environment they check the types. They do not run the
 * tests, because CI deploys only a commit that has passed them.
 */
export function localChecks(env: RemoteEnvironment, folder = PROJECT_ROOT): Step[] {
  const types: Step = {
    title: "Check the Worker's types",
    run: () => checkTypes(folder),
    ifItFails: "Nothing was changed.",
  };
  const workTree: Step = {
    title: "Check that everything is committed",
    run: () => checkWorkTree(folder),
    ifItFails: "Nothing was changed. In an emergency: --skip-checks.",
  };
  return env === "production" ? [workTree, types] : [types];
}

/**
 * Checks the settings of an environment, and its vars with the parser of the Worker.
 *
 * @throws an Error that names the wrong setting.
 */
export function checkSettings({ vars, hasCustomDomain }: Settings): void {
  parseConfig(vars);
  if (!hasCustomDomain) return;
  throw new Error(
    "wrangler.toml has a route with custom_domain, which wrangler would take over from whatever " +
      "uses it. Remove the route and deploy with --domain NAME, which refuses a name in use",
  );
}

/**
 * Returns the deployed commit as a full hash and as a readable name. Without git, the hash and the
 * name are missing.
 */
export async function labelCommit(folder = PROJECT_ROOT): Promise<VersionLabel> {
  const describe = (...args: string[]) =>
    run(folder, "git", "describe", "--always", "--dirty", ...args).catch(() => undefined);
  return { tag: await describe("--abbrev=40", "--exclude=*"), message: await describe("--tags") };
}

/**
 * Checks that staging serves the commit that is being deployed to production, and that the commit
 * has passed its trial on staging. Also checks that the commit contains the commit that production
 * serves, so a late deployment cannot undo a newer one.
 *
 * @throws an Error if staging serves a different commit, if the commit has not passed its trial, or
 *   if production serves a commit that is unknown or not an ancestor of this commit.
 */
export async function checkCommit(
  { account, settings, label }: Pick<RollOut, "account" | "settings" | "label">,
  folder = PROJECT_ROOT,
): Promise<void> {
  const api = account();
  const staging = await readSettings("staging", folder);
  const onStaging = await findLiveVersion(api, staging);
  const tried = onStaging?.commit;
  if (label.tag === undefined || tried !== label.tag) {
    throw new Error(
      `staging serves ${tried ?? "no commit"}, and this is ${label.tag ?? "no commit"}. Deploy this ` +
        "commit to staging first. In an emergency: --skip-checks",
    );
  }
  if (onStaging?.hasPassedTrial !== true) {
    throw new Error(
      "staging serves this commit, but the commit has not passed its trial there. Wait until the " +
        "deployment to staging ends, or repeat it. In an emergency: --skip-checks",
    );
  }
  const live = await findLiveVersion(api, settings);
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

async function checkWorkTree(folder: string): Promise<void> {
  const status = await run(folder, "git", "status", "--porcelain");
  if (status === "") return;
  const files = status.split("\n").map((line) => line.trim().replace(/^\S+\s+/, ""));
  const more = files.length > MAX_FILES_NAMED ? ", ..." : "";
  throw new Error(`not committed: ${files.slice(0, MAX_FILES_NAMED).join(", ")}${more}`);
}

async function checkTypes(folder: string): Promise<void> {
  await run(folder, process.execPath, TSC, "-p", ".", "--pretty", "false");
}

/**
 * Runs a program in a folder and returns what it wrote to stdout.
 *
 * @throws an Error with the output of the program if the program fails.
 */
async function run(folder: string, program: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, args, { cwd: folder });
    return stdout.trim();
  } catch (error) {
    const { stdout = "", stderr = "", message } = error as Error & Partial<Record<string, string>>;
    throw new Error((stdout + stderr).trim() || message, { cause: error });
  }
}
