import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { QUIET_WRANGLER } from "../../src/operator/wrangler.ts";

/** Thrown if a command fails. The message contains the command line and the command's stderr. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/**
 * Runs a command, waits for its end and discards its stdout.
 *
 * @param cwd the working directory of the command.
 * @throws {CommandError} if the command cannot be started or its exit status is not 0.
 */
export async function runCommand(
  command: string,
  args: readonly string[],
  cwd: string,
): Promise<void> {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...QUIET_WRANGLER },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const closed = once(child, "close") as Promise<[number | null]>;
  const fail = (reason: unknown) => {
    throw new CommandError(`${command} ${args.join(" ")} failed: ${String(reason).trim()}`);
  };
  const [stderr, [status]] = await Promise.all([text(child.stderr), closed]).catch(fail);
  if (status !== 0) fail(stderr);
}
