import { type Command, Option } from "commander";
import { desc, eq } from "drizzle-orm";
import { keyState, limitsOf } from "../../rules/keys/api-key.ts";
import { hashSecret } from "../../rules/keys/secret.ts";
import { keyBans, keyChanges } from "../../schema/keys.ts";
import { parseCount, planOption } from "../arguments.ts";
import { onSameStore, printData, printJson, UsageError } from "../command-line.ts";
import { databaseTime, type Orm } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { requireApiKey } from "../key-store/change-key.ts";
import { describeDetails } from "../key-store/key-changes.ts";
import {
  findApiKeyByHash,
  KEY_STATES_AND_BAN,
  type KeyDetails,
  type KeyFilter,
  keyStateOrBan,
  listApiKeys,
  toKeyJson,
} from "../key-store/key-details.ts";
import { readSecret } from "../read-secret.ts";
import {
  formatNumber,
  formatTable,
  formatTime,
  formatUpright,
  type Row,
} from "../terminal-text.ts";
import { lastDays, readUsage } from "../usage/usage-report.ts";

/** `keys show` looks for a key's last use in this many days, the most that `keys usage` shows. */
const LAST_USE_DAYS = 366;
const SHOWN_BANS = 10;

const ABOUT_LIST = `
Examples:
  $ npm run keys -- list --plan pro --name zoo
  $ npm run keys -- list --ending x7aq             whose key is it?

Shows the keys that match all given filters. Times are in UTC.`;

const ABOUT_SHOW = `
Examples:
  $ npm run keys -- show key_abc
  $ npm run keys -- show - < key.txt               the key whose secret is on standard input

Never pass a secret as an argument: shells keep a history of arguments. \`show -\` also finds a key by a
former secret, and prints no secret. A ban of a series lasts twice as long as the one before;
\`keys reset\` lifts it. The last use is a day in UTC, up to an hour late.`;

const ABOUT_AUDIT = `
Times are the database's, in UTC. Entries cannot be altered or deleted. The actor is the environment
variable STORE_ORDERS_ACTOR, or else the operator's account and machine.`;

/** Adds the options and the action of `keys list`, which prints keys without their secrets. */
export function defineList(command: Command): void {
  command
    .description("show all keys, or those that match the filters, the oldest first")
    .addOption(planOption())
    .addOption(new Option("--state <state>", "state of the key").choices(KEY_STATES_AND_BAN))
    .option("--name <text>", "part of the name, in upper or lower case")
    .option("--ending <text>", "the last one to four characters of the key or a former one")
    .addHelpText("after", ABOUT_LIST)
    .action(list);
}

async function list(options: StoreCommandOptions & KeyFilter): Promise<void> {
  const { json, plan, state, name } = options;
  const ending = options.ending?.toLowerCase();
  // The message does not repeat the argument, because the argument may be a secret.
  if (ending !== undefined && !/^[a-z2-7]{1,4}$/.test(ending)) {
    throw new UsageError(
      "--ending: expected the last one to four letters or digits of a key; `show -` reads a whole key from standard input",
    );
  }
  const { keys, now } = await useDatabase(options, "keys", async ({ orm }) => {
    const at = await databaseTime(orm);
    return { keys: await listApiKeys(orm, { plan, state, name, ending }, at), now: at };
  });
  if (json) return printJson(keys.map((key) => toKeyJson(key, now)));
  if (keys.length === 0) return void process.stderr.write("No matching keys.\n");
  const rows = keys.map((key) => ({
    ...toRow(key, now),
    "former key until": validFormerKeyEnds(key, now).at(-1) ?? null,
  }));
  printData(formatTable(rows, { cut: ["name"], optional: OPTIONAL_COLUMNS }));
}

/** Adds the action of `keys show`, which prints one key, its last reported use and its bans. */
export function defineShow(command: Command): void {
  command
    .description("show the limits, the state, the last use and the bans of one key")
    .addHelpText("after", ABOUT_SHOW)
    .action(show);
}

async function show(id: string, options: StoreCommandOptions): Promise<void> {
  const hash = id === "-" ? hashSecret(await readSecret(process.stdin)) : undefined;
  const { key, now, last, bans } = await useDatabase(options, "keys", async ({ orm }) => {
    const found = await (hash === undefined ? requireApiKey(orm, id) : findApiKeyByHash(orm, hash));
    if (found === undefined) {
      throw new Error(
        "this store does not know the key: try another store or environment, see --persist-to and --env",
      );
    }
    const at = await databaseTime(orm);
    const usage = await readUsage(orm, found.id, lastDays(LAST_USE_DAYS, at));
    return { key: found, now: at, last: usage.at(-1), bans: await readBans(orm, found.id, at) };
  });
  if (options.json) {
    const lastUse = { lastUsedOn: last?.day ?? null, reportedAt: last?.reportedAt ?? null };
    return printJson({ ...toKeyJson(key, now), ...lastUse, bans });
  }
  printKey(key, { json: false, now });
  process.stdout.write(
    last === undefined
      ? `The key has reported no use in the last ${LAST_USE_DAYS} days.\n`
      : `Last used on ${last.day}, as reported at ${formatTime(last.reportedAt)}.\n`,
  );
  if (bans.length === 0) return;
  const rows = bans.map(({ state, ...ban }) => {
    return { state: { text: state, isAlarm: state === "in force" }, ...ban };
  });
  printData(`\nThe last bans:\n${formatTable(rows)}`);
}

async function readBans(orm: Orm, id: string, now: Date) {
  const { number, beganAt, endsAt: until, liftedAt } = keyBans;
  const bans = await orm
    .select({ number, beganAt, until, liftedAt })
    .from(keyBans)
    .where(eq(keyBans.keyId, id))
    .orderBy(desc(beganAt))
    .limit(SHOWN_BANS);
  return bans.map((ban) => {
    const state = ban.liftedAt !== null ? "lifted" : ban.until > now ? "in force" : "ended";
    return { ...ban, state };
  });
}

/** Adds the options and the action of `keys audit`, which prints the audit trail. */
export function defineAudit(command: Command): void {
  command
    .description("show who changed which key, when and how, the newest first")
    .option("--limit <n>", "how many changes at most", parseCount, 100)
    .addHelpText("after", ABOUT_AUDIT)
    .action(audit);
}

async function audit(
  ofKey: string | undefined,
  options: StoreCommandOptions & { readonly limit: number },
): Promise<void> {
  const { limit } = options;
  const { at, actor, action, keyId, details } = keyChanges;
  const changes = await useDatabase(options, "keys", async ({ orm }) => {
    const found = await orm
      .select({ at, actor, action, keyId, details })
      .from(keyChanges)
      .where(ofKey === undefined ? undefined : eq(keyId, ofKey))
      .orderBy(desc(keyChanges.id))
      .limit(limit);
    // A key that was deleted has entries still.
    if (ofKey !== undefined && found.length === 0) await requireApiKey(orm, ofKey);
    return found;
  });
  if (options.json) return printJson(changes);
  if (changes.length === 0) return void process.stderr.write("No changes are recorded.\n");
  const rows = changes.map(({ keyId: key, details: changed, ...change }) => {
    return { ...change, key, details: describeDetails(changed) };
  });
  printData(formatTable(rows, { cut: ["actor"], below: "details" }));
  if (rows.length === limit) {
    process.stderr.write(`The newest ${formatNumber(limit)}; --limit N shows more.\n`);
  }
}

/** The columns that a narrow terminal may leave out, the most important column first. */
const OPTIONAL_COLUMNS = [
  "banned until",
  "expires",
  "per day",
  "per minute",
  "revoked",
  "ends in",
  "former key until",
  "near",
  "created",
];

/** Prints a key on stdout as JSON, or as text after printing `title` on stderr. */
export function printKey(
  key: KeyDetails,
  options: { json: boolean; title?: string; now?: Date },
): void {
  const { now = new Date() } = options;
  if (options.json) return printJson(toKeyJson(key, now));
  if (options.title !== undefined) process.stderr.write(`${options.title}\n\n`);
  printData(formatKey(key, now));
}

/**
 * Prints a new secret on stdout, and the key's details on stderr; with `json`, both on stdout. If
 * writing the secret fails, the command fails with a message that says what to do.
 */
export function printSecret(secret: string, key: KeyDetails, options: { json: boolean }): void {
  const now = new Date();
  const { id, ...rest } = toKeyJson(key, now);
  const data = options.json ? JSON.stringify({ id, key: secret, ...rest }) : secret;
  const rotate = onSameStore(`npm run keys -- rotate ${id}`);
  process.stdout.write(`${data}\n`, (error) => {
    if (error == null) return;
    process.stderr.write(
      `error: the new secret of ${id} could not be printed and is lost. Make another one:\n  ${rotate}\n`,
    );
    process.exitCode = 1;
  });
  if (options.json) return;
  process.stderr.write(`\nKeep this key now: it is not shown again.\n\n${formatKey(key, now)}`);
}

function formatKey(key: KeyDetails, now: Date): string {
  const { expires, ...row } = toRow(key, now);
  const ends = validFormerKeyEnds(key, now);
  return [
    formatUpright({ ...row, expires: expires ?? "never" }),
    ...ends.map((end) => `A former key is also valid until ${formatTime(end)}.\n`),
  ].join("");
}

function toRow(key: KeyDetails, now: Date): Row {
  const { perMinute, perDay } = limitsOf(key);
  const state = keyStateOrBan(key, now);
  return {
    id: key.id,
    name: key.name,
    plan: key.plan,
    "per minute": perMinute,
    "per day": perDay,
    state: { text: state, isAlarm: state === "revoked" || state === "banned" },
    "ends in": key.lastFour,
    created: key.createdAt,
    expires: key.expiresAt,
    revoked: key.revokedAt,
    near: key.locationHint,
    "banned until": state === "banned" ? key.bannedUntil : null,
  };
}

function validFormerKeyEnds(key: KeyDetails, now: Date): readonly Date[] {
  const isUsable = keyState(key, now.getTime()) === "active";
  return isUsable ? key.formerKeyEnds.filter((end) => end > now) : [];
}
