import { AsyncLocalStorage } from "node:async_hooks";
import { getSystemErrorMessage } from "node:util";
import { Command, CommanderError, Help } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import { SECRET_PREFIX } from "../rules/keys/secret.ts";
import { receivedSignal } from "./interruption.ts";

/** The exit status if the reader of the output closed the pipe, as shells report SIGPIPE. */
const CLOSED_PIPE_STATUS = 141;

const SECRETS = new RegExp(`${SECRET_PREFIX}\\w+`, "gi");
/** Matches a secret in an argument, but not a key's name that begins with `sord_`. */
const SECRET_IN_ARGUMENT = new RegExp(`${SECRET_PREFIX}[a-z2-7]{20}`, "i");

/** Options that npm may keep: a command that needs `--yes` asks, or refuses, without it. */
const HARMLESS = ["--yes", "--version"];

/** The npm settings that each option turns into, because npm reads `--plan` as `-p -l -a -n`. */
const NPM_LETTERS: Readonly<Record<string, readonly string[]>> = {
  "--plan": ["parseable", "long", "all"],
  "--days": ["all", "yes"],
};

const typed = new AsyncLocalStorage<readonly string[]>();

/** Wrong usage that commander cannot detect, such as contradictory options. */
export class UsageError extends Error {}

/** A failure that the command itself has reported. */
export class ReportedFailure extends Error {}

/** A command that names an unknown option before a missing one, which may be the same, mistyped. */
class StrictCommand extends Command {
  override createCommand(name?: string): Command {
    return new StrictCommand(name);
  }

  override parseOptions(args: string[]) {
    const parsed = super.parseOptions(args);
    const isUnknown = (word: string) => /^-(?!h$|-help$)/.test(word);
    // commander checks for missing options first, unless none is mandatory.
    if (parsed.unknown.some(isUnknown)) this.options.forEach((each) => (each.mandatory = false));
    return parsed;
  }
}

/** Creates a command line whose error messages mention `--help` and never contain a secret. */
export function createProgram(name: string, description: string): Command {
  const help = new Help();
  // Joins the lines of a paragraph, and wraps them to the width of the terminal.
  const wrap = (text: string) =>
    help.boxWrap(text.replaceAll(/(?<=^\S.*)\n(?=\S)/gm, " "), process.stdout.columns || 80);
  return new StrictCommand(name)
    .description(description)
    .version(packageJson.version)
    .exitOverride()
    .configureHelp({
      subcommandTerm: (command) => help.subcommandTerm(command).replace(" [options]", ""),
      optionDescription: (option) =>
        help.optionDescription(option).replace(" (default: false)", "") +
        (option.mandatory ? " (required)" : ""),
    })
    .configureOutput({
      writeOut: (text) => process.stdout.write(wrap(text)),
      writeErr: (text) => process.stderr.write(wrap(text)),
      outputError: (message) => process.stderr.write(withoutSecrets(message)),
    })
    .showHelpAfterError("Add --help to see how it is used.");
}

/**
 * Runs a command and sets the exit status of this process. A command that a signal interrupted, and
 * that has cleaned up and failed, ends by this signal, as shells expect.
 */
export async function runProgram(program: Command, args: readonly string[]): Promise<void> {
  watchOutput();
  const status = await exitStatus(program, args);
  if (status === 0) return;
  process.exitCode = status;
  // Also ends a write to a pipe that nobody reads, which would keep even `process.exit` waiting.
  if (receivedSignal !== undefined) process.kill(process.pid, receivedSignal);
}

/**
 * Runs a command. Prints the message of an error on stderr.
 *
 * @returns 0 for success, 1 for failure, 2 for wrong usage, 141 if nobody reads the output.
 */
export async function exitStatus(program: Command, words: readonly string[]): Promise<number> {
  // pnpm passes the `--` on.
  const args = words[0] === "--" ? words.slice(1) : words;
  try {
    refuseSecrets(args);
    refuseKeptByNpm(program, args);
    await typed.run([program.name(), ...args], () => program.parseAsync(args, { from: "user" }));
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if ((error as NodeJS.ErrnoException).code === "EPIPE") return CLOSED_PIPE_STATUS;
    if (!(error instanceof ReportedFailure)) printError(error);
    return error instanceof UsageError ? 2 : 1;
  }
}

function refuseSecrets(args: readonly string[]): void {
  const secret = args.find((argument) => SECRET_IN_ARGUMENT.test(argument));
  if (secret === undefined) return;
  throw new UsageError(
    `${secret} is an API key, not a name, an id or a file: nothing was done. To find the key, run ` +
      "`npm run keys -- show -` and pass it on standard input. The shell may have kept the key in its history",
  );
}

/**
 * Refuses options that were typed before `--`: npm turns them into environment variables. Does not see
 * `--expires`, `--location` and `--key`, which are npm's own options too.
 */
function refuseKeptByNpm(program: Command, args: readonly string[]): void {
  if (args.includes("-h") || args.includes("--help")) return;
  const command = program.commands.find((each) => args.includes(each.name())) ?? program;
  const line = [...args];
  const kept: string[] = [];
  for (const { long, flags, argChoices, required } of command.options) {
    const isTyped = args.some((word) => word.split("=")[0] === long);
    if (!long || HARMLESS.includes(long) || isTyped) continue;
    const setting = (name: string) => process.env[`npm_config_${name.replaceAll("-", "_")}`];
    const areLettersSet = NPM_LETTERS[long]?.every((name) => setting(name) === "true");
    const value = setting(long.slice(2));
    if (!areLettersSet && !value) continue;
    // npm passes the value of such letters, and a number, on as an argument.
    const isValue = (word: string) => argChoices?.includes(word) ?? /^\d+$/.test(word);
    const lacksValue = areLettersSet || (required && value === "true");
    const passedOn = lacksValue ? line.find(isValue) : undefined;
    if (passedOn !== undefined) line.splice(line.indexOf(passedOn), 1);
    const known = passedOn ?? (value === "true" ? undefined : value);
    line.push(...(known === undefined ? [required ? flags : long] : [long, quote(known)]));
    kept.push(long);
  }
  if (kept.length === 0) return;
  throw new UsageError(
    `npm kept ${kept.join(" and ")} for itself, so nothing was done. ` +
      `Type all options after --, as in:\n  ${[program.name(), ...line].join(" ")}`,
  );
}

/** Returns the command that runs, such as `npm run keys --`, and its arguments, for messages. */
export const typedLine = (): readonly string[] => typed.getStore() ?? [];

/** Adds the typed `--env` or `--persist-to` to another command that a message recommends. */
export function onSameStore(command: string): string {
  const isOption = (word = "") => /^--(?:env|persist-to)$/.test(word);
  const kept = typedLine().filter((word, index, words) => {
    return isOption(word.split("=")[0]) || isOption(words[index - 1]);
  });
  return [command, ...kept.map(quote)].join(" ");
}

/** Quotes a word for a shell, if necessary. */
export function quote(word: string): string {
  return /^[\w./:=@,+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * Prints data on stdout, and sets the exit status to 141 if nobody reads the data. Commands write
 * notes to stdout directly, because the loss of a note is no failure.
 */
export function printData(text: string): void {
  process.stdout.write(text, (error) => {
    if (error != null) process.exitCode ||= CLOSED_PIPE_STATUS;
  });
}

/** Prints a value as one line of JSON, for the option `--json`. */
export const printJson = (value: unknown): void => printData(`${JSON.stringify(value)}\n`);

/** Cuts secrets out of a message: people paste them in the wrong place, and messages are logged. */
export function withoutSecrets(message: string): string {
  return message.replaceAll(SECRETS, `${SECRET_PREFIX}…`);
}

/** Describes an error. One of the operating system is shown with its file, but without its code. */
export function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { errno, code, path, syscall }: NodeJS.ErrnoException = error;
  const subject = path ?? (syscall === "write" ? "the output" : undefined);
  if (errno === undefined || subject === undefined) return error.message;
  // Shows the final name of a file that a command writes under a temporary name.
  const advice = code === "ENOSPC" ? ": make room, and run the same command again" : "";
  return `${subject.replace(/\.[^.]+\.tmp$/, "")}: ${getSystemErrorMessage(errno)}${advice}`;
}

function watchOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      // The command goes on if nobody reads its output, as in `npm run deploy | head -1`. `pipeline`
      // also passes read errors of its source to stdout, but the command already reports them.
      if (error.code === "EPIPE" || error.syscall !== "write") return;
      process.once("exit", () => (process.exitCode = 1));
      // After the loss of a terminal (EIO), nothing can be said.
      if (stream === process.stdout && error.code !== "EIO") printError(error);
    });
  }
}

let outputError = "";

function printError(error: unknown): void {
  const message = errorMessage(error);
  // A full disk fails several writes of the output, and is said once.
  if (message === outputError) return;
  if (message.startsWith("the output: ")) outputError = message;
  // Escapes what a terminal obeys: a message can quote a file of somebody else.
  const shown = withoutSecrets(message).replaceAll(
    /[^\P{Cc}\n\t]|\p{Bidi_Control}/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
  process.stderr.write(`error: ${shown}\n`);
}
