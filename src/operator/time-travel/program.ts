import { type Command, Option } from "commander";
import { createProgram, printJson, UsageError } from "../command-line.ts";
import { requireConfirmation } from "../confirmation.ts";
import { storeCommand, type StoreCommandOptions } from "../database/open.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { parseTime } from "../arguments.ts";
import { findBookmark } from "./bookmarks.ts";
import { describeRestore, restore } from "./restore.ts";

const EXAMPLES = `
Examples:
  $ npm run time-travel -- bookmark --env production
  $ npm run time-travel -- bookmark --env production --at 2026-11-20T08:30:00Z
  $ npm run time-travel -- restore --env production --at 2026-11-20T08:30:00Z

D1 keeps every state of a database for 30 days (7 on Cloudflare's free plan). A bookmark names one of
the states. The local store has no bookmarks: copy its folder while nothing runs on it, or use
\`npm run orders -- export\`.`;

const RESTORE_HELP = `
The whole database goes back at once: orders, API keys and the record of their changes. Later
revocations and rotations are undone, and later keys are gone. The command lists these keys. Counts
against the limits and bans are stored elsewhere and stay. Nothing is lost: the printed bookmark
leads back.`;

interface BookmarkOptions extends StoreCommandOptions {
  readonly at?: Date;
}

interface RestoreOptions extends BookmarkOptions {
  readonly bookmark?: string;
  readonly yes: boolean;
}

/** The command line of `npm run time-travel`. */
export function timeTravelProgram(): Command {
  const program = createProgram(
    "npm run time-travel --",
    "Put the database of a deployed environment back into an earlier state.",
  ).addHelpText("after", EXAMPLES);

  storeCommand(program, "bookmark")
    .description("print the bookmark of the database's present or earlier state")
    .option("--at <time>", "time of the state, within the last 30 days, in ISO 8601", parseTime)
    .action(async (options: BookmarkOptions) => {
      const bookmark = await findBookmark(requireEnvironment(options), options.at);
      if (options.json) printJson({ bookmark });
      else process.stdout.write(`${bookmark}\n`);
    });

  storeCommand(program, "restore")
    .description("put the database back into an earlier state")
    .option("--at <time>", "time of the state, within the last 30 days, in ISO 8601", parseTime)
    .addOption(new Option("--bookmark <bookmark>", "bookmark of the state").conflicts("at"))
    .option("--yes", "do not ask", false)
    .addHelpText("after", RESTORE_HELP)
    .action(restoreAndPrint);
  return program;
}

async function restoreAndPrint(options: RestoreOptions): Promise<void> {
  const environment = requireEnvironment(options);
  if (options.bookmark === undefined && options.at === undefined) {
    throw new UsageError("name the state: --at TIME or --bookmark BOOKMARK");
  }
  const bookmark = options.bookmark ?? (await findBookmark(environment, options.at));
  if (!options.yes)
    await requireConfirmation(environment, describeConsequence(environment, bookmark));
  const report = await restore(environment, bookmark);
  if (options.json) printJson(report);
  else process.stdout.write(describeRestore(environment, report));
}

function describeConsequence(environment: RemoteEnvironment, bookmark: string): string {
  return (
    `This puts the database of ${environment} back to ${bookmark}.\n` +
    "All that was written since is undone, and queries under way are cancelled."
  );
}

function requireEnvironment({ env }: StoreCommandOptions): RemoteEnvironment {
  if (env !== undefined) return env;
  throw new UsageError(
    "name the environment with --env: the local store has no Time Travel; copy its folder while " +
      "nothing runs on it, or use `npm run orders -- export`",
  );
}
