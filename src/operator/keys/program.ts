import { type Command, Option } from "commander";
import { LOCATION_HINTS } from "../../rules/keys/location-hints.ts";
import { PLAN_LIMITS } from "../../rules/limits/plans.ts";
import {
  durationParser,
  limitOption,
  parseCount,
  parseName,
  parseTime,
  parseTimeOrNever,
  planOption,
  wholeNumberParser,
} from "../arguments.ts";
import { createProgram } from "../command-line.ts";
import { yesOption } from "../confirmation.ts";
import { storeCommand } from "../database/open.ts";
import { formatNumber } from "../terminal-text.ts";
import { create, reset, revoke, rotate, update } from "./change.ts";
import { restore } from "./restore.ts";
import { audit, list, MAX_DAYS, show, usage } from "./show.ts";
import { KEY_STATES_AND_BAN } from "./stored-keys.ts";
import { NEAR_LIMIT } from "./usage-report.ts";

const MAX_GRACE_DAYS = 90;
const parseGrace = durationParser(MAX_GRACE_DAYS);

const ABOUT = `
The commands use the local store, even while the service runs, or with --env the
database of an environment. Changes take effect within 30 seconds. Times are in
UTC. For the options of a command, add --help.`;

const LIMITS = Object.entries(PLAN_LIMITS).map(([plan, { perMinute, perDay }]) => {
  return `  ${plan.padEnd(12)}${formatNumber(perMinute)} and ${formatNumber(perDay)}`;
});

const ABOUT_CREATE = `
Plans, in requests per minute and per day:
${LIMITS.join("\n")}
  enterprise  set for each key: --per-minute and --per-day

The key is shown once, because the store keeps only its hash. Only the key goes
to standard output: KEY=$(npm run -s keys -- create ...)

Example:
  $ npm run keys -- create --plan pro --name "Pet shop" --expires 2027-01-31`;

const ABOUT_SHOW = `
With \`-\`, the id is that of the present or former secret on standard input. Never
pass a secret as an argument: shells keep a history of arguments.

Examples:
  $ npm run keys -- show key_abc
  $ npm run keys -- show - < key.txt`;

const ABOUT_ROTATE = `
The former and the new key share one id, plan, limits, request counts and bans.
Still earlier keys end no later than the former one.

Example:
  $ npm run keys -- rotate key_abc --grace 0    the key has leaked: end it at once`;

const ABOUT_AUDIT = `
Entries cannot be altered or deleted. The actor is the environment variable
STORE_ORDERS_ACTOR, or else the account and the machine.`;

const ABOUT_USAGE = `
A key in use reports once an hour. Admitted requests and bans are exact up to the
last report, refused requests are a lower bound. Days are in UTC. A dash (null in
JSON) stands for a figure that was not reported yet.

Example:
  $ npm run keys -- usage --days 90 --html usage.html --env production`;

const ABOUT_RESTORE = `
Takes the keys database back with D1 Time Travel. Keys that were created since are
gone; plans, limits, names and expiries are as they were. Revocations and rotations
since are kept: no secret that had ended is valid again. After any failure, run the
same command again. To undo it, restore the bookmark that it prints.

Example:
  $ npm run keys -- restore --env production --at 2026-11-20T08:30:00Z`;

/** Defines the command line of `npm run keys`. */
export function keysProgram(): Command {
  const program = createProgram("npm run keys --", "Manage the API keys of the service.")
    .helpCommand(false)
    .addHelpText("after", ABOUT);
  const name = ["--name <text>", "whose key it is, up to 100 characters"] as const;
  const expires = "when the key expires; a date means its start in UTC";

  storeCommand(program, "create")
    .description("create a key and print its secret once")
    .addOption(planOption().makeOptionMandatory())
    .requiredOption(...name, parseName)
    .option("--expires <time>", expires, parseTime)
    .addOption(limitOption("--per-minute <n>"))
    .addOption(limitOption("--per-day <n>"))
    .addOption(new Option("--near <region>", "region of the limiter").choices(LOCATION_HINTS))
    .addHelpText("after", ABOUT_CREATE)
    .action(create);

  storeCommand(program, "list")
    .description("show all keys, or those that match all filters")
    .addOption(planOption())
    .addOption(new Option("--state <state>", "state of the key").choices(KEY_STATES_AND_BAN))
    .option("--name <text>", "part of the name, in upper or lower case")
    .option("--ending <text>", "the last one to four characters of the key or a former one")
    .action(list);

  storeCommand(program, "show <id>")
    .description("show the limits, state, last use and bans of a key")
    .addHelpText("after", ABOUT_SHOW)
    .action(show);

  storeCommand(program, "update <id>")
    .description("change a key's plan, limits, name or expiry")
    .addOption(planOption())
    .option(...name, parseName)
    .option("--expires <time>", `${expires}; or never`, parseTimeOrNever)
    .addOption(limitOption("--per-minute <n>"))
    .addOption(limitOption("--per-day <n>"))
    .action(update);

  storeCommand(program, "rotate <id>")
    .description("replace a key's secret by a new one")
    .addOption(
      new Option("--grace <time>", `how long the former key is valid: 0, 90m, 24h, 7d ...`)
        .argParser(parseGrace)
        .default(parseGrace("24h"), "24h"),
    )
    .addOption(yesOption())
    .addHelpText("after", ABOUT_ROTATE)
    .action(rotate);

  storeCommand(program, "revoke <id>")
    .description("make a key invalid for good")
    .addOption(yesOption())
    .action(revoke);

  storeCommand(program, "reset <id>")
    .description("set a key's request counts to 0 and forget its bans")
    .addOption(yesOption())
    .action(reset);

  storeCommand(program, "audit [id]")
    .description("show who changed which key, the newest first")
    .option("--limit <n>", "how many changes at most", parseCount, 100)
    .addHelpText("after", ABOUT_AUDIT)
    .action(audit);

  storeCommand(program, "usage [id]")
    .description("show what all keys used, or one key day by day")
    .option("--days <n>", "how many days, today included", wholeNumberParser(MAX_DAYS), 14)
    .option("--html <file>", "write an HTML page instead, of all keys or of one")
    .addOption(
      new Option("--near", `only keys that reached ${100 * NEAR_LIMIT} % of a limit`)
        .default(false)
        .conflicts("html"),
    )
    .addHelpText("after", ABOUT_USAGE)
    .action(usage);

  storeCommand(program, "restore")
    .description("take all keys back to a time, but keep revocations")
    .option("--at <time>", "time within the last 30 days; a date means its start in UTC", parseTime)
    .addOption(new Option("--bookmark <bookmark>", "bookmark of the state").conflicts("at"))
    .addOption(yesOption())
    .addHelpText("after", ABOUT_RESTORE)
    .action(restore);
  return program;
}
