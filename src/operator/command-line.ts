import { Command, CommanderError } from "commander";
import { DrizzleQueryError } from "drizzle-orm";
import { SECRET_PREFIX } from "../worker/api-keys/secret.ts";

/** The exit status of a command that was refused or failed. */
const FAILURE = 1;
/** The exit status for wrong usage, such as an unknown option. */
const WRONG_USAGE = 2;

/** Matches secrets of keys, even if they are mistyped or cut off. */
const SECRETS = new RegExp(`${SECRET_PREFIX}\\w+`, "gi");

/**
 * Thrown for wrong usage that commander cannot detect, such as options that contradict each other.
 */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Thrown to end the command with the given exit status and without printing a message. */
export class EndWithStatus extends Error {
  override readonly name = "EndWithStatus";
  readonly status: number;

  constructor(status: number) {
    super(`exit status ${status}`);
    this.status = status;
  }
}

/** Creates a command line whose error messages mention `--help` and never contain a secret. */
export function createProgram(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .exitOverride()
    .configureOutput({ outputError: (message, write) => write(withoutSecrets(message)) })
    .showHelpAfterError("Add --help to see how it is used.")
    .helpOption("-h, --help", "show this help");
}

/** Runs a command with arguments and sets the exit status of this process. */
export async function runProgram(program: Command, args: readonly string[]): Promise<void> {
  process.stdout.on("error", endQuietlyWithoutReader);
  process.exitCode = await exitStatus(program, args);
}

/**
 * Runs a command. If it throws an error, prints the message on stderr.
 *
 * @returns the exit status: 0 for success, 1 if the command was refused or failed, 2 for wrong
 *   usage, or the status of an `EndWithStatus`.
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

/** Prints a value as one line of JSON, for the option `--json`. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/**
 * Removes secrets from an error message. People sometimes paste a secret instead of an id, an
 * option or a file, and the message may be logged.
 */
function withoutSecrets(message: string): string {
  return message.replaceAll(SECRETS, `${SECRET_PREFIX}…`);
}

/** Returns the message of an error for the operator. */
export function errorMessage(error: unknown): string {
  // The message of a drizzle error is the SQL. Its cause has the message of the database.
  if (error instanceof DrizzleQueryError && error.cause !== undefined) {
    return errorMessage(error.cause);
  }
  return error instanceof Error ? error.message : String(error);
}

/** Ends the process without an error if the reader of stdout has ended, as in `export | head`. */
function endQuietlyWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
}
