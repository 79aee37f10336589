import { type Command, Option } from "commander";
import { hashSecret } from "../../rules/keys/secret.ts";
import { durationParser, planOption } from "../arguments.ts";
import { printJson, UsageError } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { isVerificationKey } from "../key-store/administration.ts";
import { requireApiKey } from "../key-store/change-key.ts";
import {
  findApiKeyByHash,
  findApiKeysByEnding,
  KEY_STATES_AND_BAN,
  type KeyDetails,
  type KeyFilter,
  listApiKeys,
  toKeyJson,
} from "../key-store/key-details.ts";
import { readSecret } from "../read-secret.ts";
import { formatTime } from "../terminal-text.ts";
import { lastDays, readUsage } from "../usage/usage-report.ts";
import { printKey, printKeys } from "./print-keys.ts";

const LONGEST_DAYS = 36_500;
/** `keys show` looks for a key's last use in this many days, the most that `keys usage` shows. */
const LAST_USE_DAYS = 366;

const ABOUT_LIST = `
Examples:
  $ npm run keys -- list
  $ npm run keys -- list --plan pro --name zoo
  $ npm run keys -- list --expires-within 30d      keys to renew
  $ npm run keys -- list --state revoked --json

The command lists the keys that match all given filters. "ends in" shows the last four characters of
the key. For keys from before the store kept these characters, it shows "unknown" until they are
rotated. Times are in UTC. Keys that \`npm run verify\` made are listed only with --name verification.`;

const ABOUT_SHOW = `
The store keeps only the hash of a key, so \`show\` cannot print the key. A ban is shown as soon as it
begins. The last use is a day in UTC. The limiter of a key reports its use once an hour while the key
is used.

Examples:
  $ npm run keys -- show key_abc
  $ npm run -s keys -- show key_abc --json | jq -r .state     active, expired, revoked or banned`;

const ABOUT_FIND = `
Examples:
  $ npm run keys -- find < key.txt
  $ pbpaste | npm run -s keys -- find --json | jq -r .[].id
  $ npm run keys -- find x7aq                      keys that end in x7aq

Pass a whole key on standard input, never as an argument, because shells keep a history of arguments.
\`find\` also finds a key by a former secret that a rotation has replaced. The store keeps the hash and
the last four characters of a secret. Keys for which \`list\` shows "unknown" instead of these
characters are found only through standard input.`;

/** Adds the options and the action of `keys list`, which prints keys without their secrets. */
export function defineList(command: Command): void {
  command
    .description("show all keys, or those that match the filters, the oldest first")
    .addOption(planOption())
    .addOption(new Option("--state <state>", "state of the key").choices(KEY_STATES_AND_BAN))
    .option("--name <text>", "part of the name, in upper or lower case")
    .option(
      "--expires-within <duration>",
      "usable keys that expire within this time, such as 12h or 30d",
      durationParser(LONGEST_DAYS),
    )
    .addHelpText("after", ABOUT_LIST)
    .action(list);
}

/** Adds the action of `keys show`, which prints one key and its last reported use. */
export function defineShow(command: Command): void {
  command
    .description("show the limits, the state and the last use of one key")
    .addHelpText("after", ABOUT_SHOW)
    .action(show);
}

/** Adds the options and the action of `keys find`, which finds a key by a secret or its end. */
export function defineFind(command: Command): void {
  command
    .description("show the id and name of a key that is read from standard input")
    .argument("[ending]", "the last one to four characters of the key, instead of the key")
    .addHelpText("after", ABOUT_FIND)
    .action(find);
}

interface ListOptions extends StoreCommandOptions, Omit<KeyFilter, "expiresUntil"> {
  /** Selects active keys that expire within this many milliseconds. */
  readonly expiresWithin?: number;
}

async function list(options: ListOptions): Promise<void> {
  const { json, plan, state, name, expiresWithin } = options;
  const now = new Date();
  const expiresUntil =
    expiresWithin === undefined ? undefined : new Date(now.getTime() + expiresWithin);
  const filter = { plan, state, name, expiresUntil };
  const found = await useDatabase(options, "keys", (database) =>
    listApiKeys(database.orm, filter, now),
  );
  const keys = name === undefined ? found.filter((key) => !isVerificationKey(key)) : found;
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  const none = "There are no keys yet: `npm run keys -- create --help` shows how to create one.";
  printKeys(keys, { json, none: isFiltered ? "No matching keys." : none });
}

async function show(id: string, options: StoreCommandOptions): Promise<void> {
  const now = new Date();
  const days = lastDays(LAST_USE_DAYS, now);
  const { key, last } = await useDatabase(options, "keys", async (database) => ({
    key: await requireApiKey(database.orm, id),
    last: (await readUsage(database.orm, id, days)).at(-1),
  }));
  if (options.json) {
    const lastUse = { lastUsedOn: last?.day ?? null, reportedAt: last?.reportedAt ?? null };
    return printJson({ ...toKeyJson(key, now), ...lastUse });
  }
  printKey(key, { json: false });
  process.stdout.write(
    last === undefined
      ? `The key has reported no use in the last ${LAST_USE_DAYS} days. A key reports within an hour of its first request.\n`
      : `Last used on ${last.day}, as reported at ${formatTime(last.reportedAt)}.\n`,
  );
}

async function find(ending: string | undefined, options: StoreCommandOptions): Promise<void> {
  const keys = ending === undefined ? await bySecret(options) : await byEnding(ending, options);
  const [key] = keys;
  if (key !== undefined && keys.length === 1 && !options.json) printKey(key, options);
  else printKeys(keys, { json: options.json, none: "" });
}

async function byEnding(text: string, options: StoreCommandOptions): Promise<KeyDetails[]> {
  const ending = text.toLowerCase();
  // The message does not repeat the argument, because the argument may be a secret.
  if (!/^[a-z2-7]{1,4}$/.test(ending)) {
    throw new UsageError(
      "expected the last one to four letters or digits of a key; pass a whole key on standard input",
    );
  }
  const keys = await useDatabase(options, "keys", (database) =>
    findApiKeysByEnding(database.orm, ending),
  );
  if (keys.length > 0) return keys;
  throw new Error(
    `no key is known to end in ${ending}; a key older than the stored characters is found only through standard input`,
  );
}

async function bySecret(options: StoreCommandOptions): Promise<KeyDetails[]> {
  const hash = hashSecret(await readSecret(process.stdin));
  const key = await useDatabase(options, "keys", (database) =>
    findApiKeyByHash(database.orm, hash),
  );
  if (key !== undefined) return [key];
  throw new Error(
    "this store does not know the key: try another store or environment, see --persist-to and --env",
  );
}
