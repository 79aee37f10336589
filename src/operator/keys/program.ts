import { type Command, Option } from "commander";
import { KEY_STATES_AND_BAN } from "../../rules/keys/api-key.ts";
import { LOCATION_HINTS } from "../../rules/keys/location-hints.ts";
import { NEAR_LIMIT } from "../../rules/limits/low-quota.ts";
import * as args from "../arguments.ts";
import { createProgram } from "../command-line.ts";
import { yesOption } from "../confirmation.ts";
import { storeCommand } from "../database/open.ts";

/** Parses the number of days that `usage` shows: housekeeping deletes older reports. */
const parseDays = args.wholeNumberParser(366);

const HELP = `
The commands use the local store, even while the service runs, or with --env that
of an environment. Changes take effect within 30 seconds. Times are in UTC.`;

const HELP_CREATE = `
docs/limits.md has the limits of the plans. An Enterprise key needs --per-minute and
--per-day. The key is shown once, because the store keeps only its hash. Only the key
goes to standard output:
  $ KEY=$(npm run -s keys -- create --plan pro --name "Pet shop")`;

const HELP_SHOW = `
With \`-\`, the id is that of the secret on standard input, which can be a former one in its grace:
  $ npm run keys -- show - < key.txt`;

const HELP_UNDO = `
From the audit trail: former names, plans, limits and expiries come back, unless a later change
replaced them. Keys that were created since are revoked. Revoked, replaced and expired keys stay
invalid, and resets stay. All in one transaction, which the trail records.
  $ npm run keys -- undo --since 2026-11-20T08:30:00Z --actor mallory@laptop`;

/** Imports the module of an action on demand: drizzle and zod are slow to load, and help needs neither. */
const lazy = <Name extends string>(
  load: () => Promise<Record<Name, (...values: never[]) => Promise<void>>>,
  name: Name,
) => {
  return async (...values: unknown[]) => (await load())[name](...(values as never[]));
};

const changing = () => import("./change.ts");
const showing = () => import("./show.ts");

export function keysProgram(): Command {
  const program = createProgram("npm run keys --", "Manage the API keys of the service.");
  program.addHelpText("after", HELP);
  const command = (usageLine: string, description: string, help = "") =>
    storeCommand(program, usageLine).description(description).addHelpText("after", help);
  const name = ["--name <text>", "whose key it is, up to 100 characters"] as const;
  const expires = "when the key expires; a date means its start in UTC";
  const perMinute = args.limitOption("--per-minute <n>");
  const perDay = args.limitOption("--per-day <n>");

  command("create", "create a key and print its secret once", HELP_CREATE)
    .addOption(args.planOption().makeOptionMandatory())
    .requiredOption(...name, args.parseName)
    .option("--expires <time>", expires, args.parseTime)
    .addOption(perMinute)
    .addOption(perDay)
    .addOption(new Option("--near <region>", "region of the limiter").choices(LOCATION_HINTS))
    .action(lazy(changing, "create"));

  const ending = "the last one to four characters of the key, or of a former one in its grace";
  command("list", "show all keys, or those that match all filters")
    .addOption(args.planOption())
    .addOption(new Option("--state <state>", "state of the key").choices(KEY_STATES_AND_BAN))
    .option("--name <text>", "part of the name, in upper or lower case")
    .option("--ending <text>", ending)
    .action(lazy(showing, "list"));

  command("show <id>", "show the limits, state and bans of a key", HELP_SHOW).action(
    lazy(showing, "show"),
  );

  command("update <id>", "change a key's plan, limits, name or expiry")
    .addOption(args.planOption())
    .option(...name, args.parseName)
    .option("--expires <time>", `${expires}; or never`, args.parseTimeOrNever)
    .addOption(perMinute)
    .addOption(perDay)
    .action(lazy(changing, "update"));

  const grace = new Option(
    "--grace <time>",
    "how long former keys stay valid: 0, 90m, 24h, 7d ...",
  );
  command("rotate <id>", "replace a key's secret by a new one")
    .addOption(grace.argParser(args.parseDuration).default(24 * 3_600_000, "24h"))
    .addOption(yesOption())
    .action(lazy(changing, "rotate"));

  command("revoke <id...>", "make keys invalid for good")
    .addOption(yesOption())
    .action(lazy(changing, "revoke"));

  command("reset <id>", "set a key's request counts to 0 and forget its bans")
    .addOption(yesOption())
    .action(lazy(changing, "reset"));

  command("audit [id]", "show who changed which key, the newest first")
    .option("--limit <n>", "how many changes at most", args.parseCount, 100)
    .action(lazy(showing, "audit"));

  command("usage [id]", "show what all keys used, or one key day by day")
    .option("--days <n>", "how many days in UTC, today included", parseDays, 14)
    .option("--html <file>", "write an HTML page instead, of all keys or of one", args.parsePath)
    .option("--near", `only keys that reached ${100 * NEAR_LIMIT} % of a limit`, false)
    .action(lazy(() => import("./usage.ts"), "usage"));

  const since = "the first change to take back; a date means its start";
  command(
    "undo [id]",
    "take back changes of all keys or of one, but end what they ended",
    HELP_UNDO,
  )
    .requiredOption("--since <time>", since, args.parseTime)
    .option("--actor <name>", "only the changes of this actor, as audit shows it")
    .addOption(yesOption())
    .action(lazy(() => import("./undo.ts"), "undo"));

  return program;
}
