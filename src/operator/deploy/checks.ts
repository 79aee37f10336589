import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { CloudflareApi } from "../cloudflare-api.ts";
import { readSettings, type Settings } from "../settings.ts";
import { findLiveVersion } from "./account.ts";

/** Returns the commit that is checked out, with `-dirty` if files differ; `undefined` without git. */
export const readCommit = (folder: string): Promise<string | undefined> =>
  git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*").catch(
    () => undefined,
  );

/**
 * @throws an Error unless everything is committed, staging serves this commit after a successful trial,
 *   and it contains production's commit, which the deployment would otherwise undo.
 */
export async function checkCommit(
  api: CloudflareApi,
  production: Settings,
  commit: string | undefined,
  folder: string,
): Promise<void> {
  const staging = await findLiveVersion(api, await readSettings("staging", folder));
  const tried = staging?.hasPassedTrial ? staging.commit : undefined;
  if (commit === undefined || commit.endsWith("-dirty") || tried !== commit) {
    const served = tried ?? "no commit that has passed its trial";
    throw new Error(
      `staging serves ${served}, and this is ${commit ?? "no commit"}. Commit everything, and deploy ` +
        "the commit to staging first. In an emergency: --skip-checks",
    );
  }
  const live = await findLiveVersion(api, production);
  if (live === undefined) return;
  const served = live.commit?.replace("-dirty", "") ?? "no commit";
  await git(folder, "merge-base", "--is-ancestor", served, "HEAD").catch(() => {
    throw new Error(
      `production serves ${served}, which this commit does not contain. Fetch it, and deploy a ` +
        "commit that contains it. In an emergency: --skip-checks",
    );
  });
}

async function git(folder: string, ...args: string[]): Promise<string> {
  return (await promisify(execFile)("git", args, { cwd: folder })).stdout.trim();
}
