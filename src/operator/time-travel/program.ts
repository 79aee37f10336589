import { type Command, Option } from "commander";
import { createProgram, printJson, UsageError } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import { storeCommand, type StoreCommandOptions } from "../database/open.ts";
import type { RemoteTarget } from "../database/d1-api.ts";
import { parseTime } from "../arguments.ts";
import { withInterruption } from "../interruption.ts";

/** How long D1 keeps the states of a database. */
const KEPT_MS = 30 * 86_400_000;

const EXAMPLES = `
Examples:
  $ npm run time-travel -- bookmark --database orders --env production
  $ npm run time-travel -- bookmark --database keys --env production --at 2026-11-20T08:30:00Z
  $ npm run time-travel -- restore --database orders --env production --at 2026-11-20T08:30:00Z

There are two databases: orders, and keys. The keys database also has the audit trail, bans and usage.

D1 keeps every state of a database for 30 days (7 on Cloudflare's free plan). A bookmark is the name of
one state. The local store has no bookmarks. To back it up, copy its folder while no service uses it,
or run \`npm run orders -- export\`.`;

const RESTORE_HELP = `
The command restores the whole database and leaves the other database unchanged. Restoring the keys
undoes all later revocations, rotations, and changes of plans, limits and expiries, and removes keys
that were created later. The command lists all of these keys and records them in the audit trail.
Request counts and bans are stored in Durable Objects, so they do not change. To undo a restoration,
restore the bookmark that the command prints before it restores anything. Once the restoration has
begun, Ctrl+C does not end the command before it has compared the keys.`;

interface BookmarkOptions extends StoreCommandOptions {
  readonly database: DatabaseName;
  readonly at?: Date;
}

interface RestoreOptions extends BookmarkOptions {
  readonly bookmark?: string;
  readonly yes: boolean;
}

/** Defines the command line of `npm run time-travel`. */
export function timeTravelProgram(): Command {
  const program = createProgram(
    "npm run time-travel --",
    "Restore a database of a deployed environment to an earlier state.",
  ).addHelpText("after", EXAMPLES);

  const stateCommand = (name: string, description: string) =>
    storeCommand(program, name)
      .description(description)
      .addOption(
        new Option("--database <database>", "which of the two databases")
          .choices(DATABASE_NAMES)
          .makeOptionMandatory(),
      )
      .option("--at <time>", "time of the state, within the last 30 days, in ISO 8601", parseTime);

  stateCommand(
    "bookmark",
    "print the bookmark of the present state of a database, or of an earlier state",
  ).action(async (options: BookmarkOptions) => {
    const { bookmarkOf } = await import("./restore.ts");
    const bookmark = await bookmarkOf(requireTarget(options), requireKept(options.at));
    if (options.json) printJson({ bookmark });
    else process.stdout.write(`${bookmark}\n`);
  });

  stateCommand("restore", "restore a database to an earlier state")
    .addOption(new Option("--bookmark <bookmark>", "bookmark of the state").conflicts("at"))
    .addOption(yesOption())
    .addHelpText("after", RESTORE_HELP)
    .action(restoreAndPrint);
  return program;
}

async function restoreAndPrint(options: RestoreOptions): Promise<void> {
  const target = requireTarget(options);
  if (options.bookmark === undefined && options.at === undefined) {
    throw new UsageError("name the state: --at TIME or --bookmark BOOKMARK");
  }
  const at = requireKept(options.at);
  const { bookmarkOf, describeRestore, restore } = await import("./restore.ts");
  const report = await withInterruption("anything was restored", async (signal) => {
    const bookmark = options.bookmark ?? (await bookmarkOf(target, at));
    if (!options.yes) {
      await requireConfirmation(
        target.env,
        `This puts the ${target.name} database of ${target.env} back to ${bookmark}.\n` +
          "All that was written to it since is undone, and queries under way are cancelled.",
      );
    }
    return restore(target, bookmark, signal);
  });
  if (options.json) printJson(report);
  else process.stdout.write(describeRestore(target, report));
}

function requireKept(at: Date | undefined): Date | undefined {
  if (at === undefined) return at;
  const agoMs = Date.now() - at.getTime();
  if (agoMs >= 0 && agoMs <= KEPT_MS) return at;
  throw new UsageError("name a time in the past, within the last 30 days");
}

function requireTarget({ env, database }: BookmarkOptions): RemoteTarget {
  if (env !== undefined) return { env, name: database };
  throw new UsageError(
    "name the environment with --env: the local store has no Time Travel; copy its folder while " +
      "nothing runs on it, or use `npm run orders -- export`",
  );
}
