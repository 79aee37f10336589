import { Command, CommanderError } from "commander";
import { DrizzleQueryError } from "drizzle-orm";

/** Exit status of a command that was refused or failed (contract, section 6). */
const FAILURE = 1;
/** Exit status of a command line that makes no sense. */
const WRONG_USAGE = 2;

/** A command line that makes no sense, found after it was parsed. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Ends a command with a status of its own once it has printed all that it has to say. */
export class EndWithStatus extends Error {
  override readonly name = "EndWithStatus";
  readonly status: number;

  constructor(status: number) {
    super(`exit status ${status}`);
    this.status = status;
  }
}

/** A command line whose commands all answer `--help` and tell of it where they are misused. */
export function createProgram(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .exitOverride()
    .showHelpAfterError("Add --help to see how it is used.")
    .helpOption("-h, --help", "show this help");
}

/** Runs a command of this process, and sets the exit status. */
export async function runProgram(program: Command, args: readonly string[]): Promise<void> {
  process.stdout.on("error", endQuietlyWithoutReader);
  process.exitCode = await exitStatus(program, args);
}

/**
 * Runs a command. Whatever goes wrong is one message on stderr.
 *
 * @returns the exit status: 0, 1 where the command was refused or failed, 2 for wrong usage, or the
 *   command's own.
 */
export async function exitStatus(program: Command, args: readonly string[]): Promise<number> {
  try {
    await program.parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof EndWithStatus) return error.status;
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    process.stderr.write(`error: ${errorMessage(error)}\n`);
    return error instanceof UsageError ? WRONG_USAGE : FAILURE;
  }
}

/** Prints the one JSON value of `--json`. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function errorMessage(error: unknown): string {
  // drizzle's own message is the SQL; the database's is below it.
  if (error instanceof DrizzleQueryError && error.cause !== undefined) {
    return errorMessage(error.cause);
  }
  return error instanceof Error ? error.message : String(error);
}

/** `orders export | head` is no error: the reader has what it wanted. */
function endQuietlyWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
}
