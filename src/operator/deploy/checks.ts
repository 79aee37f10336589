import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { RemoteEnvironment } from "../environment.ts";
import { PROJECT_ROOT } from "../wrangler.ts";
import type { Step } from "./steps.ts";

const TYPESCRIPT_PACKAGE = createRequire(import.meta.url).resolve("typescript/package.json");
const TSC = join(dirname(TYPESCRIPT_PACKAGE), "bin", "tsc");
const MAX_FILES_NAMED = 5;

/**
 * Lists the checks on this machine before anything is sent: production gets only what is committed,
 * and the types are right. The tests are left to CI, which deploys only what has passed them.
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

/** Names the commit that is deployed, as `git describe` does; `undefined` without git. */
export async function describeCommit(folder = PROJECT_ROOT): Promise<string | undefined> {
  return run(folder, "git", "describe", "--always", "--dirty", "--tags").catch(() => undefined);
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

/** @throws an Error with what the program wrote. */
async function run(folder: string, program: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, args, { cwd: folder });
    return stdout.trim();
  } catch (error) {
    const { stdout = "", stderr = "", message } = error as Error & Partial<Record<string, string>>;
    throw new Error((stdout + stderr).trim() || message, { cause: error });
  }
}
