import { createInterface } from "node:readline";
import { Option } from "commander";
import type { RemoteEnvironment } from "./arguments.ts";
import { withInterruption } from "./interruption.ts";

export class NotConfirmedError extends Error {}

export function yesOption(): Option {
  return new Option("--yes", "do not ask for confirmation (for scripts)").default(false);
}

/**
 * In a deployed environment and without `--yes`, prints the consequence of a change and the account,
 * and asks the operator to type the environment's name.
 *
 * @throws {NotConfirmedError} if the operator types anything else, or if stdin is no terminal. An
 *   Error if a signal ends the question.
 */
export async function requireConfirmation(
  { env, yes }: { readonly env?: RemoteEnvironment | undefined; readonly yes: boolean },
  consequence: string,
): Promise<void> {
  if (env === undefined || yes) return;
  // Imported on demand, because help does not need them.
  const { logIn } = await import("./cloudflare-api.ts");
  const { readSettings } = await import("./settings.ts");
  const account = await (await logIn(await readSettings(env))).describeAccount();
  const { stdin: input, stderr: output } = process;
  output.write(`${consequence}\nThe account is ${account}.\n`);
  if (!input.isTTY) {
    throw new NotConfirmedError(
      "nothing was changed, because there is no terminal to ask at: confirm with --yes, typed after --",
    );
  }
  const answer = await withInterruption("the answer: nothing was changed", async (signal) => {
    // Not before signals are handled: an early Ctrl+C would end the command without a word.
    output.write(`Type ${env} to go on: `);
    // `terminal: false` leaves Ctrl+C and Ctrl+Z to the terminal, which signals npm and this process.
    using lines = createInterface({ input, terminal: false, signal });
    const line = await lines[Symbol.asyncIterator]().next();
    signal.throwIfAborted();
    return line.value ?? "";
  });
  if (answer.trim() === env) return;
  throw new NotConfirmedError("not confirmed: nothing was changed");
}
