import { readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { CommandError, runCommand } from "./run-command.ts";

/** The earlier commit with which the benchmark compares the service. */
export const BASELINE_COMMIT = "c4fd191";

/**
 * Checks out `BASELINE_COMMIT` as a git worktree and installs its npm packages.
 *
 * @param root the folder of the worktree, which must not exist.
 * @returns `null` when the worktree is ready, or the reason why git cannot provide the commit.
 * @throws {CommandError} if the packages cannot be installed.
 */
export async function checkOutBaseline(root: string): Promise<string | null> {
  try {
    const worktree = ["worktree", "add", "--detach", root, BASELINE_COMMIT];
    await runCommand("git", worktree, PROJECT_ROOT);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return `${error.message}\nA shallow clone lacks the commit: git fetch --unshallow`;
  }
  try {
    await installPackages(root);
  } catch (error) {
    await removeBaseline(root);
    throw error;
  }
  return null;
}

/** Removes the worktree of the baseline commit from the disk and from git. */
export async function removeBaseline(root: string): Promise<void> {
  await runCommand("git", ["worktree", "remove", "--force", root], PROJECT_ROOT);
}

/**
 * Links this checkout's `node_modules` into the worktree of the baseline commit if both have the
 * same package-lock.json. If not, runs `npm ci` in the worktree.
 */
async function installPackages(root: string): Promise<void> {
  if (await hasSamePackages(root)) {
    await symlink(join(PROJECT_ROOT, "node_modules"), join(root, "node_modules"));
  } else {
    await runCommand("npm", ["ci"], root);
  }
}

async function hasSamePackages(root: string): Promise<boolean> {
  const lockFiles = [PROJECT_ROOT, root].map((folder) =>
    readFile(join(folder, "package-lock.json"), "utf8"),
  );
  const [ours, theirs] = await Promise.all(lockFiles);
  return ours === theirs;
}
