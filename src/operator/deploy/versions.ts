import pRetry from "p-retry";
import type { RemoteEnvironment } from "../arguments.ts";
import type { Settings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";

/**
 * Uploads a version and returns its id. `deploy` makes the Worker if it is missing and sends all
 * traffic to the version; `versions upload` needs a Worker and sends no traffic. The tag of the version
 * is its commit.
 */
export async function upload(
  command: "deploy" | "versions upload",
  { env, vars: { LIST_READS = "primary" } }: Settings,
  commit: string | undefined,
): Promise<string> {
  const args = [...command.split(" "), "--env", env, ...(commit ? [`--tag=${commit}`] : [])];
  // The build of the reference page reads LIST_READS, to say whether lists can be stale.
  const variables = { LIST_READS: String(LIST_READS) };
  const { stdout } = await runWrangler(args, variables);
  const [, id] = /^(?:Current|Worker) Version ID: (\S+)$/m.exec(stdout) ?? [];
  if (id === undefined) throw new Error("wrangler did not say which version it uploaded");
  return id;
}

/**
 * Divides the traffic of a Worker between versions, in up to three attempts.
 *
 * @param shares percentages by version id. A version with 0 gets only requests that select it.
 */
export async function divideTraffic(
  env: RemoteEnvironment,
  shares: Readonly<Record<string, number>>,
  message: string,
): Promise<void> {
  const versions = Object.entries(shares).map(([id, share]) => `${id}@${share}%`);
  const args = ["versions", "deploy", ...versions, "--env", env, `--message=${message}`, "--yes"];
  await pRetry(() => runWrangler(args), { retries: 2, minTimeout: 500 });
}
