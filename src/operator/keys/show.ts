import { desc, eq } from "drizzle-orm";
import { keyState } from "../../rules/keys/api-key.ts";
import { hashSecret } from "../../rules/keys/secret.ts";
import { keyBans, keyChanges } from "../../schema/keys.ts";
import { onSameStore, printData, printJson, UsageError } from "../command-line.ts";
import { databaseTime, type Orm } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { readSecret } from "../read-secret.ts";
import { formatNumber, formatRecord, formatTable, formatTime } from "../terminal-text.ts";
import { requireApiKey } from "./change-key.ts";
import {
  findApiKeyByHash,
  type KeyDetails,
  type KeyFilter,
  keyStateOrBan,
  knownLimitsOf,
  listApiKeys,
  toKeyJson,
} from "./stored-keys.ts";
import { COLUMNS, formatShare, writeUsagePage } from "./usage-page.ts";
import {
  completeBy,
  describeReport,
  type Figures,
  figuresByDay,
  isNear,
  lastDays,
  NEAR_LIMIT,
  readReport,
  readUsage,
  type UsageReport,
} from "./usage-report.ts";

/** `keys show` looks for a key's last use in this many days, the most that `keys usage` shows. */
export const MAX_DAYS = 366;
const SHOWN_BANS = 10;

/** Prints the keys that match a filter, without their secrets. */
export async function list(options: StoreCommandOptions & KeyFilter): Promise<void> {
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
    id: key.id,
    plan: key.plan,
    state: keyStateOrBan(key, now),
    "ends in": key.lastFour,
    expires: key.expiresAt,
    name: key.name,
  }));
  printData(formatTable(rows));
}

/** Prints one key, its last reported use and its bans. `-` reads the key's secret from stdin. */
export async function show(id: string, options: StoreCommandOptions): Promise<void> {
  const hash = id === "-" ? hashSecret(await readSecret(process.stdin)) : undefined;
  const { key, now, last, bans } = await useDatabase(options, "keys", async ({ orm }) => {
    const found = await (hash === undefined ? requireApiKey(orm, id) : findApiKeyByHash(orm, hash));
    if (found === undefined) {
      throw new Error(
        "this store does not know the key: try another store or environment, see --persist-to and --env",
      );
    }
    const at = await databaseTime(orm);
    const used = await readUsage(orm, found.id, lastDays(MAX_DAYS, at));
    return { key: found, now: at, last: used.at(-1), bans: await readBans(orm, found.id, at) };
  });
  if (options.json) {
    const lastUse = { lastUsedOn: last?.day ?? null, reportedAt: last?.reportedAt ?? null };
    return printJson({ ...toKeyJson(key, now), ...lastUse, bans });
  }
  const lastUsed = last && `${last.day}, as reported at ${formatTime(last.reportedAt)}`;
  const record = { ...toRecord(key, now), "last used": lastUsed ?? `not in ${MAX_DAYS} days` };
  printData(formatRecord(record));
  if (bans.length === 0) return;
  const rows = bans.map(({ state, number, beganAt: began, until, liftedAt: lifted }) => {
    return { ban: number, state, began, until, lifted };
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

/** Prints the audit trail of all keys, or of one, the newest change first. */
export async function audit(
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
    const fields = Object.entries(changed).map(
      ([field, { from, to }]) => `${field}: ${from === null ? "" : `${from} → `}${to ?? "none"}`,
    );
    return { ...change, key, details: fields.join(", ") };
  });
  printData(formatTable(rows));
  if (rows.length === limit) {
    process.stderr.write(`The newest ${formatNumber(limit)}; --limit N shows more.\n`);
  }
}

export interface UsageOptions extends StoreCommandOptions {
  readonly days: number;
  /** If true, shows only keys near a limit. */
  readonly near: boolean;
  readonly html?: string;
}

/** Prints the usage of all keys or of one, up to an hour old, or writes it to an HTML file. */
export async function usage(id: string | undefined, options: UsageOptions): Promise<void> {
  const { near, days, html, json } = options;
  const all = await useDatabase(options, "keys", async ({ orm }) =>
    readReport(orm, id, days, await databaseTime(orm)),
  );
  const report = near ? { ...all, keys: all.keys.filter(isNear) } : all;
  if (html !== undefined) {
    await writeUsagePage(report, id === undefined ? undefined : report.keys[0], html);
    process.stderr.write(`The page is in ${html}.\n`);
  }
  if (json) {
    const complete = completeBy(report.madeAt);
    printJson(report.keys.map(({ limits: _limits, ...one }) => ({ ...one, completeBy: complete })));
  } else if (html === undefined) {
    const none = `No key${near ? ` is known to have reached ${100 * NEAR_LIMIT} % of a limit` : ""}.`;
    if (report.keys.length === 0) process.stderr.write(`${none}\n`);
    else printData(formatUsage(report, id === undefined));
    process.stderr.write(`${describeReport(all)}\n`);
  }
}

function formatUsage(report: UsageReport, hasManyKeys: boolean): string {
  const cells = (figures: Figures) =>
    Object.fromEntries(
      COLUMNS.map(({ heading, name, isShare }) => {
        return [heading, isShare ? formatShare(figures[name]) : figures[name]];
      }),
    );
  const rows = hasManyKeys
    ? report.keys.map((key) => {
        const ban = key.bannedUntil && `, banned until ${formatTime(key.bannedUntil)}`;
        return { id: key.id, ...cells(key), name: key.name + (ban ?? "") };
      })
    : figuresByDay(report).map((figures) => ({ day: figures.day, ...cells(figures) }));
  return formatTable(rows);
}

/** Prints a key on stdout as JSON, or as text after printing `title` on stderr. */
export function printKey(key: KeyDetails, options: { json: boolean; title: string }): void {
  const now = new Date();
  if (options.json) return printJson(toKeyJson(key, now));
  process.stderr.write(`${options.title}\n\n`);
  printData(formatRecord(toRecord(key, now)));
}

/**
 * Prints a new secret on stdout, and then the key's details on stderr; with `json`, both on stdout.
 *
 * @throws an Error for the operator if the secret could not be printed.
 */
export async function printSecret(
  secret: string,
  key: KeyDetails,
  { json }: { json: boolean },
): Promise<void> {
  const now = new Date();
  const { id, ...rest } = toKeyJson(key, now);
  const data = json ? JSON.stringify({ id, key: secret, ...rest }) : secret;
  const lost = await new Promise((resolve) => process.stdout.write(`${data}\n`, resolve));
  if (lost != null) {
    const [rotate, revoke] = ["rotate", "revoke"].map((name) =>
      onSameStore(`npm run keys -- ${name} ${id}`),
    );
    throw new Error(
      `the key ${id} is stored, but its secret could not be printed and is lost. Give it a new secret, or end it:\n  ${rotate}\n  ${revoke}`,
      { cause: lost },
    );
  }
  if (json) return;
  const record = formatRecord(toRecord(key, now));
  process.stderr.write(`\nKeep this key now: it is not shown again.\n\n${record}`);
}

function toRecord(key: KeyDetails, now: Date) {
  const { perMinute, perDay } = knownLimitsOf(key);
  const state = keyStateOrBan(key, now);
  const isUsable = keyState(key, now.getTime()) === "active";
  const formerEnds = isUsable ? key.formerKeyEnds.filter((end) => end > now).map(formatTime) : [];
  return {
    id: key.id,
    name: key.name,
    plan: key.plan,
    "per minute": perMinute,
    "per day": perDay,
    state,
    "banned until": state === "banned" ? key.bannedUntil : null,
    "ends in": key.lastFour,
    created: key.createdAt,
    expires: key.expiresAt ?? "never",
    revoked: key.revokedAt,
    near: key.locationHint,
    "former keys until": formerEnds.join(", ") || null,
  };
}
