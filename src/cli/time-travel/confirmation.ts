import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";
import type { RemoteEnvironment } from "../environment.ts";

/** Where a person is asked. */
interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly output: Writable;
}

/**
 * Has a person at the terminal type the name of the environment whose database is to be restored.
 *
 * @throws an Error where something else is typed, or where there is nobody to ask.
 */
export async function requireConfirmation(
  environment: RemoteEnvironment,
  bookmark: string,
  { input, output }: Terminal = { input: process.stdin, output: process.stderr },
): Promise<void> {
  if (input.isTTY !== true) throw new Error("there is nobody to ask: confirm with --yes");
  output.write(
    `This puts the database of ${environment} back to ${bookmark}.\n` +
      "All that was written since is undone, and queries under way are cancelled.\n",
  );
  const terminal = createInterface({ input, output });
  const closed = once(terminal, "close").then(() => "");
  const answer = await Promise.race([
    terminal.question(`Type ${environment} to go on: `),
    closed,
  ]).finally(() => terminal.close());
  if (answer.trim() !== environment) throw new Error("not confirmed: nothing was changed");
}
