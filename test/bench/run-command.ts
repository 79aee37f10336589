import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { QUIET_WRANGLER } from "../../src/operator/wrangler.ts";

/** A command that failed. The message holds its arguments and what it wrote to stderr. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/**
 * Runs a command to its end and drops what it prints.
 *
 * @param cwd the folder to run the command in.
 * @throws {CommandError} if the command is missing or its exit status is not 0.
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
