import type { Command } from "commander";
import { toKeyJson } from "../key-store/key-json.ts";
import { requireApiKey } from "../key-store/change-key.ts";
import { lastDays, type ReportedDay } from "../usage/usage-report.ts";
import { readUsageOfKey } from "../usage/read-usage.ts";
import { printJson } from "../command-line.ts";
import type { StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { formatTime } from "../terminal-text.ts";
import { printKey } from "./print-keys.ts";

/**
 * How many days back `keys show` looks for the last use of a key: as many as `keys usage` can show.
 */
const DAYS = 366;

const DETAILS = `
The store keeps only the hash of a key, so \`show\` cannot print the key. A ban is shown as soon as it
begins. The last use is a day in UTC. The limiter of a key reports its use once an hour while the key
is used.

Examples:
  $ npm run keys -- show key_abc
  $ npm run -s keys -- show key_abc --json | jq -r .state     active, expired, revoked or banned`;

/** Adds the action of `keys show`, which prints one key and its last reported use. */
export function defineShow(command: Command): void {
  command
    .description("show the limits, the state and the last use of one key")
    .addHelpText("after", DETAILS)
    .action(show);
}

async function show(id: string, options: StoreCommandOptions): Promise<void> {
  const now = new Date();
  const { key, lastDay } = await useDatabase(options, "keys", async (database) => ({
    key: await requireApiKey(database.orm, id),
    lastDay: await readLastDay(database, id, now),
  }));
  if (options.json) {
    const lastUsedOn = lastDay?.day ?? null;
    const reportedAt = lastDay?.reportedAt.toISOString() ?? null;
    return printJson({ ...toKeyJson(key, now), lastUsedOn, reportedAt });
  }
  printKey(key, { json: false });
  process.stdout.write(`${lastUse(lastDay)}\n`);
}

async function readLastDay(
  { orm }: StoreDatabase,
  id: string,
  now: Date,
): Promise<ReportedDay | undefined> {
  return (await readUsageOfKey(orm, id, lastDays(DAYS, now))).at(-1);
}

function lastUse(lastDay: ReportedDay | undefined): string {
  if (lastDay === undefined) {
    return `The key has reported no use in the last ${DAYS} days. A key reports within an hour of its first request.`;
  }
  return `Last used on ${lastDay.day}, as reported at ${formatTime(lastDay.reportedAt)}.`;
}
