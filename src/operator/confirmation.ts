import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";
import type { RemoteEnvironment } from "./environment.ts";

/** Where a person is asked. */
interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly output: Writable;
}

/**
 * Asks a person at the terminal to type the name of the environment whose database is to be changed.
 *
 * @param consequence says what the change does, in one or more lines.
 * @throws an Error if something else is typed, or if there is nobody to ask.
 */
export async function requireConfirmation(
  environment: RemoteEnvironment,
  consequence: string,
  { input, output }: Terminal = { input: process.stdin, output: process.stderr },
): Promise<void> {
  if (input.isTTY !== true) throw new Error("there is nobody to ask: confirm with --yes");
  output.write(`${consequence}\n`);
  const terminal = createInterface({ input, output });
  const closed = once(terminal, "close").then(() => "");
  const answer = await Promise.race([
    terminal.question(`Type ${environment} to go on: `),
    closed,
  ]).finally(() => terminal.close());
  if (answer.trim() !== environment) throw new Error("not confirmed: nothing was changed");
}
