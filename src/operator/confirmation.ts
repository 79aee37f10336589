import { createInterface } from "node:readline";
import { Option } from "commander";
import type { RemoteEnvironment } from "./arguments.ts";
import { withInterruption } from "./interruption.ts";

/** Thrown if the operator does not confirm a change. */
export class NotConfirmedError extends Error {}

/** Returns the option `--yes`, with which a script confirms a change in advance. */
export function yesOption(): Option {
  return new Option("--yes", "do not ask for confirmation (for scripts)").default(false);
}

/**
 * Prints the consequence of a change, and asks the operator to type the environment's name.
 *
 * @throws {NotConfirmedError} if the operator types anything else, or if stdin is no terminal. An
 *   Error if a signal ends the question.
 */
export async function requireConfirmation(
  environment: RemoteEnvironment,
  consequence: string,
): Promise<void> {
  process.stderr.write(`${consequence}\n`);
  if (!process.stdin.isTTY) {
    throw new NotConfirmedError(
      "nothing was changed, because there is no terminal to ask at: confirm with --yes",
    );
  }
  const answer = await withInterruption("the answer: nothing was changed", (signal) =>
    ask(`Type ${environment} to go on: `, signal),
  );
  if (answer.trim() === environment) return;
  throw new NotConfirmedError("not confirmed: nothing was changed");
}

/** Returns the line that the operator types, or "" if the input ends. */
function ask(question: string, signal: AbortSignal): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // `terminal: false` leaves Ctrl+C and Ctrl+Z to the terminal, which signals npm and this process.
  const lines = createInterface({ input: process.stdin, terminal: false });
  lines.once("line", resolve).once("close", () => resolve(""));
  process.stderr.write(question);
  signal.addEventListener("abort", () => reject(signal.reason as Error));
  return promise.finally(() => lines.close());
}
