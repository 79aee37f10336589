import { Argument, type Command } from "commander";
import { createProgram } from "../command-line.ts";
import { PROGRAMS } from "../programs.ts";
import { bashScript, fishScript, type Words, zshScript } from "./scripts.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };
type Shell = keyof typeof SCRIPTS;

const HELP = `
The script completes the commands and options after \`npm run NAME --\` and \`npm start --\` in this
project's folder. It leaves everything else to npm's own completion.

Examples:
  $ source <(npm run -s completion -- bash)
  $ source <(npm run -s completion -- zsh)
  $ npm run -s completion -- fish | source`;

/** Defines the command line of `npm run completion`. */
export function completionProgram(): Command {
  return createProgram("npm run completion --", "Print a script that completes the commands.")
    .addArgument(new Argument("<shell>", "your shell").choices(Object.keys(SCRIPTS)))
    .addHelpText("after", HELP)
    .allowExcessArguments(false)
    .action(async (shell: Shell) => {
      process.stdout.write(SCRIPTS[shell](await readWords()));
    });
}

/** Reads the words that can follow each command and option from the definitions of the commands. */
async function readWords(): Promise<Words> {
  const words = new Map<string, readonly string[]>();
  for (const [name, load] of Object.entries(PROGRAMS)) addWords(words, name, await load());
  return words;
}

function addWords(words: Map<string, readonly string[]>, path: string, command: Command): void {
  const { commands, options, registeredArguments } = command;
  words.set(path, [
    ...commands.map((inner) => inner.name()),
    ...registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
    ...options.flatMap(({ long }) => long ?? []),
    "--help",
  ]);
  for (const { long, argChoices } of options) {
    if (argChoices !== undefined) words.set(`${path} ${long}`, argChoices);
  }
  for (const inner of commands) addWords(words, `${path} ${inner.name()}`, inner);
}
