import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { QUIET_WRANGLER } from "../../src/operator/wrangler.ts";

/**
 * Runs a command, waits for its end and discards its stdout.
 *
 * @param cwd the working directory of the command.
 * @throws {Error} if the command cannot be started or its exit status is not 0. The message
 *   contains the command line and the command's stderr.
 */
export async function runCommand(
  command: string,
  args: readonly string[],
  cwd: string,
): Promise<void> {
  const env = { ...process.env, ...QUIET_WRANGLER };
  await promisify(execFile)(command, args, { cwd, env, maxBuffer: 2 ** 26 });
}
