import { spawnSync } from "node:child_process";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { runCommand } from "./run-command.ts";

/** The earlier commit with which the benchmark compares the service. */
export const BASELINE_COMMIT = "451a601";

/**
 * Checks out `BASELINE_COMMIT` as a git worktree and installs its npm packages.
 *
 * @param root the folder of the worktree, which must not exist.
 * @throws {Error} if git lacks the commit, or if the packages cannot be installed.
 */
export async function checkOutBaseline(root: string): Promise<void> {
  const worktree = ["worktree", "add", "--detach", root, BASELINE_COMMIT];
  await runCommand("git", worktree, PROJECT_ROOT);
  await runCommand("npm", ["ci", "--workspace", "src/client", "--include-workspace-root"], root);
}

/** Removes the worktree of the baseline commit from the disk and from git. */
export function removeBaseline(root: string): void {
  spawnSync("git", ["worktree", "remove", "--force", root], { cwd: PROJECT_ROOT });
}
