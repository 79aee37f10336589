import { Command, CommanderError } from "commander";
import { DrizzleQueryError } from "drizzle-orm";
import { SECRET_PREFIX } from "../worker/api-keys/secret.ts";

/** Exit status of a command that was refused or failed. */
const FAILURE = 1;
/** Exit status of a command line that is wrong. */
const WRONG_USAGE = 2;

/** Secrets, whole or mistyped. */
const SECRETS = new RegExp(`${SECRET_PREFIX}\\w+`, "gi");

/** A command line that commander accepts and the command itself finds wrong. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Ends a command with a status of its own, without a message. */
export class EndWithStatus extends Error {
  override readonly name = "EndWithStatus";
  readonly status: number;

  constructor(status: number) {
    super(`exit status ${status}`);
    this.status = status;
  }
}

/** Creates a command line whose errors mention `--help` and never repeat a secret. */
export function createProgram(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .exitOverride()
    .configureOutput({ outputError: (message, write) => write(withoutSecrets(message)) })
    .showHelpAfterError("Add --help to see how it is used.")
    .helpOption("-h, --help", "show this help");
}

/** Runs the command of this process and sets the exit status of the process. */
export async function runProgram(program: Command, args: readonly string[]): Promise<void> {
  process.stdout.on("error", endQuietlyWithoutReader);
  process.exitCode = await exitStatus(program, args);
}

/**
 * Runs a command. Prints any error as one message on stderr.
 *
 * @returns the exit status: 0, 1 if the command was refused or failed, 2 for wrong usage, or the
 *   status of an `EndWithStatus`.
 */
export async function exitStatus(program: Command, args: readonly string[]): Promise<number> {
  try {
    await program.parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof EndWithStatus) return error.status;
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    process.stderr.write(withoutSecrets(`error: ${errorMessage(error)}\n`));
    return error instanceof UsageError ? WRONG_USAGE : FAILURE;
  }
}

/** Prints the one JSON value of `--json`. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Errors may be logged, and people paste a secret where an id, an option or a file belongs. */
function withoutSecrets(message: string): string {
  return message.replaceAll(SECRETS, `${SECRET_PREFIX}…`);
}

/** Returns the message of an error for the operator. */
export function errorMessage(error: unknown): string {
  // drizzle's own message is the SQL; its cause has the message of the database.
  if (error instanceof DrizzleQueryError && error.cause !== undefined) {
    return errorMessage(error.cause);
  }
  return error instanceof Error ? error.message : String(error);
}

/** Ends without an error if the reader of stdout has gone, as in `orders export | head`. */
function endQuietlyWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
}
