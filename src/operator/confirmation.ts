import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";
import { Option } from "commander";
import { typedLine } from "./command-line.ts";
import type { RemoteEnvironment } from "./environment.ts";

/** The streams on which a command asks for confirmation. */
interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly output: Writable;
}

/** Thrown if the operator does not confirm a change. */
export class NotConfirmedError extends Error {
  override readonly name = "NotConfirmedError";
}

/** Returns the option `--yes`, with which a script confirms a change in advance. */
export function yesOption(): Option {
  return new Option("--yes", "do not ask for confirmation (for scripts)").default(false);
}

/**
 * Asks the operator to confirm a change by typing the name of the deployed environment.
 *
 * @param consequence what the change does, in one or more lines.
 * @throws {NotConfirmedError} if the operator types anything else, or if standard input is not a
 *   terminal.
 */
export async function requireConfirmation(
  environment: RemoteEnvironment,
  consequence: string,
  { input, output }: Terminal = { input: process.stdin, output: process.stderr },
): Promise<void> {
  output.write(`${consequence}\n`);
  if (input.isTTY !== true) {
    throw new NotConfirmedError(
      "nothing was changed, because there is no terminal to ask at: confirm with --yes\n  " +
        typedLine({ "--yes": true }),
    );
  }
  const terminal = createInterface({ input, output });
  const closed = once(terminal, "close").then(() => "");
  const answer = await Promise.race([
    terminal.question(`Type ${environment} to go on: `),
    closed,
  ]).finally(() => terminal.close());
  if (answer.trim() !== environment)
    throw new NotConfirmedError("not confirmed: nothing was changed");
}
