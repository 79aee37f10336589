import { readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { CommandError, runCommand } from "./run-command.ts";

/** The commit to compare the service with. */
export const BASELINE_COMMIT = "c4fd191";

/**
 * Checks the earlier commit out as a git worktree, with its packages.
 *
 * @param root the folder of the worktree, which must not exist.
 * @returns why git cannot provide the commit, or `null` when it is ready.
 * @throws {CommandError} if its packages cannot be installed.
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

/** Removes the worktree from the disk and from git. */
export async function removeBaseline(root: string): Promise<void> {
  await runCommand("git", ["worktree", "remove", "--force", root], PROJECT_ROOT);
}

/** Links this checkout's packages if both commits use the same ones. */
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
