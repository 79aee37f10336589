import { Command, CommanderError } from "commander";
import { DrizzleQueryError } from "drizzle-orm/errors";
import packageJson from "../../package.json" with { type: "json" };
import { SECRET_PREFIX } from "../worker/api-keys/secret.ts";

/** The exit status of a command that was refused or failed. */
const FAILURE = 1;
/** The exit status for wrong usage, such as an unknown option. */
const WRONG_USAGE = 2;
/** The exit status if nobody reads the data of a command: the status of a program that SIGPIPE ends. */
const CLOSED_PIPE = 141;

/** Matches secrets of keys, even if they are mistyped or cut off. */
const SECRETS = new RegExp(`${SECRET_PREFIX}\\w+`, "gi");
/**
 * Matches a secret in an argument. Requires 20 characters after `sord_`, because the name of a key
 * can begin with `sord_` too.
 */
const SECRET_IN_ARGUMENT = new RegExp(`${SECRET_PREFIX}[a-z2-7]{20}`, "i");

/** The part of an error message after a file's path, by the operating system's error code. */
const FILE_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist: check the path",
  ENOTDIR: "is not possible, because a part of the path is a file: check the path",
  EEXIST: "is a file, not a folder: name another one",
  EISDIR: "is a folder, not a file: name a file",
  EACCES: "may not be used by this account: check its permissions",
  EPERM: "may not be used by this account: check its permissions",
  EROFS: "is on a disk that cannot be written to: name another place",
  ENOSPC: "does not fit on the disk: make room, or name another place",
};

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

/** A command that reports an unknown option before it reports a missing required option. */
class CommandLine extends Command {
  override createCommand(name?: string): Command {
    return new CommandLine(name);
  }

  override parseOptions(args: string[]): ReturnType<Command["parseOptions"]> {
    const parsed = super.parseOptions(args);
    const { unknown } = parsed;
    const isHelp = unknown.some((option) => option === "-h" || option === "--help");
    const [option] = unknown;
    // Reports unknown options only for commands without subcommands: all other commands pass
    // unknown options on to a subcommand.
    if (option !== undefined && !isHelp && this.commands.length === 0) {
      // `unknownOption` is missing in commander's types. It throws an error with a suggestion.
      (this as unknown as { unknownOption(flag: string): never }).unknownOption(option);
    }
    return parsed;
  }
}

/** Creates a command line whose error messages mention `--help` and never contain a secret. */
export function createProgram(name: string, description: string): Command {
  return new CommandLine(name)
    .description(description)
    .version(packageJson.version, "-V, --version", "show the version of the service")
    .exitOverride()
    .configureOutput({ outputError: (message, write) => write(withoutSecrets(message)) })
    .showHelpAfterError("Add --help to see how it is used.")
    .helpOption("-h, --help", "show this help");
}

/**
 * Runs a command with arguments and sets the exit status of this process. The command goes on if
 * nobody reads its output, as in `npm run deploy | head -1`.
 */
export async function runProgram(program: Command, args: readonly string[]): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", ignoreClosedPipe);
  const status = await exitStatus(program, args);
  if (status !== 0) process.exitCode = status;
}

/**
 * Runs a command. If it throws an error, prints the message on stderr.
 *
 * @returns the exit status: 0 for success, 1 if the command was refused or failed, 2 for wrong
 *   usage, or the status of an `EndWithStatus`.
 */
export async function exitStatus(program: Command, args: readonly string[]): Promise<number> {
  try {
    refuseSecrets(args);
    await program.parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof EndWithStatus) return error.status;
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    if (isClosedPipe(error)) return CLOSED_PIPE;
    process.stderr.write(withoutSecrets(`error: ${errorMessage(error)}\n`));
    return error instanceof UsageError ? WRONG_USAGE : FAILURE;
  }
}

/**
 * Throws an error if an argument contains a secret, because commands print their arguments. The
 * error also warns that the shell may have kept the secret in its history.
 */
function refuseSecrets(args: readonly string[]): void {
  const secret = args.find((argument) => SECRET_IN_ARGUMENT.test(argument));
  if (secret === undefined) return;
  throw new UsageError(
    `${secret} is an API key, not a name, an id or a file: nothing was done. To find the key, run ` +
      "`npm run keys -- find` on standard input. The shell may have kept the key in its history",
  );
}

/**
 * Prints data, for which the operator runs the command, on stdout. If nobody reads the data, the
 * exit status is 141 instead of 0. A command that only prints text beside its work writes to stdout
 * directly, because its work counts.
 */
export function printData(text: string): void {
  process.stdout.write(text, (error) => {
    if (error != null) process.exitCode ||= CLOSED_PIPE;
  });
}

/** Prints a value as one line of JSON, for the option `--json`. */
export function printJson(value: unknown): void {
  printData(`${JSON.stringify(value)}\n`);
}

/**
 * Removes secrets from an error message. People sometimes paste a secret instead of an id, an
 * option or a file, and the message may be logged.
 */
function withoutSecrets(message: string): string {
  return message.replaceAll(SECRETS, `${SECRET_PREFIX}…`);
}

/** Returns the message with which a command reports an error to the operator. */
export function errorMessage(error: unknown): string {
  // The message of a drizzle error is the failed SQL query. The error's `cause` has the message of
  // the database.
  if (error instanceof DrizzleQueryError && error.cause !== undefined) {
    return errorMessage(error.cause);
  }
  if (!(error instanceof Error)) return String(error);
  const { code = "", path }: NodeJS.ErrnoException = error;
  const fault = FILE_ERRORS[code];
  if (fault === undefined || path === undefined) return error.message;
  // Commands write a file under a temporary name and then rename the file. The error message shows
  // the final name.
  return `${path.replace(/\.\d+\.tmp$/, "")} ${fault}`;
}

function isClosedPipe(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "EPIPE";
}

function ignoreClosedPipe(error: Error): void {
  if (!isClosedPipe(error)) throw error;
}
