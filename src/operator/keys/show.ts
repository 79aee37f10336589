import type { Command } from "commander";
import { toKeyJson } from "../key-store/key-json.ts";
import { findApiKey } from "../key-store/key-details.ts";
import { lastDays } from "../usage/usage-report.ts";
import { type ReportedDay, readUsageOfKey } from "../../worker/usage/report-usage.ts";
import { printJson } from "../command-line.ts";
import type { StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { printKey } from "./print-keys.ts";
import { requireKey } from "../key-store/require-key.ts";

/** As many days as `keys usage` shows. */
const DAYS = 366;

const DETAILS = `
The key itself is stored only as a hash. A ban shows here as soon as it happens. The last use is a day
in UTC: a key reports its figures once an hour while it is used.

Examples:
  $ npm run keys -- show key_abc
  $ npm run -s keys -- show key_abc --json | jq -r .state     active, expired, revoked or banned`;

/** Completes the command `keys show`. */
export function defineShow(command: Command): void {
  command
    .description("show one key: its limits, its state and when it was last used")
    .addHelpText("after", DETAILS)
    .action(show);
}

async function show(id: string, options: StoreCommandOptions): Promise<void> {
  const now = new Date();
  const { key, lastDay } = await useDatabase(options, "keys", async (database) => ({
    key: requireKey(await findApiKey(database.orm, id), id),
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
    return `It has reported no use in the last ${DAYS} days. A key reports within an hour of its first request.`;
  }
  return `Last used on ${lastDay.day}, as reported at ${lastDay.reportedAt.toISOString()}.`;
}
