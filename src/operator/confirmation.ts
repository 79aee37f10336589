import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { Option } from "commander";
import { typedLine } from "./command-line.ts";
import type { RemoteEnvironment } from "./arguments.ts";

/** Thrown if the operator does not confirm a change. */
export class NotConfirmedError extends Error {}

/** Returns the option `--yes`, with which a script confirms a change in advance. */
export function yesOption(): Option {
  return new Option("--yes", "do not ask for confirmation (for scripts)").default(false);
}

/**
 * Prints the consequence of a change, and asks the operator to type the environment's name.
 *
 * @throws {NotConfirmedError} if the operator types anything else, or if stdin is no terminal.
 */
export async function requireConfirmation(
  environment: RemoteEnvironment,
  consequence: string,
): Promise<void> {
  process.stderr.write(`${consequence}\n`);
  if (!process.stdin.isTTY) {
    throw new NotConfirmedError(
      "nothing was changed, because there is no terminal to ask at: confirm with --yes\n  " +
        typedLine({ "--yes": true }),
    );
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl+C in a terminal rejects the question, and sends no signal to this process.
  const question = terminal.question(`Type ${environment} to go on: `).catch(() => "");
  const closed = once(terminal, "close").then(() => "");
  const answer = await Promise.race([question, closed]).finally(() => terminal.close());
  if (answer.trim() === environment) return;
  throw new NotConfirmedError("not confirmed: nothing was changed");
}
