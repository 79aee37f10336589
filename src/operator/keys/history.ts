import { type Command, Option } from "commander";
import { and, desc, eq, gte } from "drizzle-orm";
import { apiKeys, keyBans, keyChanges } from "../../schema/keys.ts";
import { parseCount, parseTime } from "../arguments.ts";
import { printData, printJson } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { describeDetails } from "../key-store/key-changes.ts";
import { isInForce } from "../key-store/key-details.ts";
import { formatNumber, formatTable } from "../terminal-text.ts";

const ABOUT_AUDIT = `
Examples:
  $ npm run keys -- audit
  $ npm run keys -- audit key_abc --since 2026-11-01
  $ npm run -s keys -- audit --limit 1000 --json

A change and its entry are stored in one transaction. Entries cannot be altered or deleted. The actor
is the value of the environment variable STORE_ORDERS_ACTOR. If it is not set, the actor is the
operator's account and machine.`;

const ABOUT_BANS = `
Examples:
  $ npm run keys -- bans
  $ npm run keys -- bans key_abc
  $ npm run -s keys -- bans --in-force --json | jq -r .[].keyId

A ban is listed as soon as it begins. "number" is the position of the ban in a series of bans. Each ban
of a series lasts twice as long as the previous ban. \`npm run keys -- reset ID\` lifts a ban. With
BAN_MODE=log the service bans no key, and logs which keys it would have banned.`;

interface HistoryOptions extends StoreCommandOptions {
  readonly limit: number;
}

/** Adds the options and the action of `keys audit`, which prints the audit trail. */
export function defineAudit(command: Command): void {
  command
    .description("show who changed which key, when and how, the newest first")
    .option("--since <time>", "only changes since this time, in ISO 8601", parseTime)
    .addOption(limitOption("changes"))
    .addHelpText("after", ABOUT_AUDIT)
    .action(audit);
}

/** Adds the options and the action of `keys bans`, which prints past and present bans. */
export function defineBans(command: Command): void {
  command
    .description("show the bans of all keys, or of one, the newest first")
    .option("--in-force", "only bans that have neither ended nor been lifted", false)
    .addOption(limitOption("bans"))
    .addHelpText("after", ABOUT_BANS)
    .action(bans);
}

function limitOption(entries: string): Option {
  const option = new Option("--limit <n>", `how many ${entries} at most`);
  return option.argParser(parseCount).default(100);
}

async function audit(
  ofKey: string | undefined,
  options: HistoryOptions & { readonly since?: Date },
): Promise<void> {
  const { since, limit } = options;
  const { at, actor, action, keyId, details } = keyChanges;
  const changes = await useDatabase(options, "keys", ({ orm }) =>
    orm
      .select({ at, actor, action, keyId, details })
      .from(keyChanges)
      .where(and(ofKey ? eq(keyId, ofKey) : undefined, since && gte(at, since)))
      .orderBy(desc(keyChanges.id))
      .limit(limit),
  );
  if (options.json) return printJson(changes);
  const rows = changes.map(({ keyId: key, details: changed, ...change }) => {
    return { ...change, key, details: describeDetails(changed) };
  });
  const table = formatTable(rows, { cut: ["actor"], below: "details" });
  printNewest("changes", table, rows.length, options);
}

async function bans(
  ofKey: string | undefined,
  options: HistoryOptions & { readonly inForce: boolean },
): Promise<void> {
  const now = new Date();
  const found = await useDatabase(options, "keys", ({ orm }) =>
    orm
      .select({
        keyId: keyBans.keyId,
        /** `null` if the key no longer exists. */
        name: apiKeys.name,
        number: keyBans.number,
        beganAt: keyBans.beganAt,
        until: keyBans.endsAt,
        liftedAt: keyBans.liftedAt,
      })
      .from(keyBans)
      .leftJoin(apiKeys, eq(apiKeys.id, keyBans.keyId))
      .where(
        and(
          ofKey ? eq(keyBans.keyId, ofKey) : undefined,
          options.inForce ? isInForce(now) : undefined,
        ),
      )
      .orderBy(desc(keyBans.beganAt), keyBans.keyId)
      .limit(options.limit),
  );
  const withState = found.map((ban) => {
    const state = ban.liftedAt !== null ? "lifted" : ban.until > now ? "in force" : "ended";
    return { ...ban, state };
  });
  if (options.json) return printJson(withState);
  const rows = withState.map(({ keyId, name, number, state, beganAt, until, liftedAt }) => ({
    key: keyId,
    name,
    number,
    state: { text: state, isAlarm: state === "in force" },
    began: beganAt,
    until,
    lifted: liftedAt,
  }));
  const optional = ["until", "number", "lifted", "began"];
  printNewest("bans", formatTable(rows, { cut: ["name"], optional }), rows.length, options);
}

function printNewest(entries: string, table: string, count: number, { limit }: HistoryOptions) {
  if (count === 0) return void process.stderr.write(`No such ${entries} are recorded.\n`);
  printData(table);
  if (count === limit) {
    process.stderr.write(`The newest ${formatNumber(limit)}; --limit N shows more.\n`);
  }
}
