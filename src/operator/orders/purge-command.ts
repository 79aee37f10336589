import type { Command } from "commander";
import { printJson } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import { storeCommand, type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { parseTime } from "../arguments.ts";
import { formatCount, formatTime } from "../terminal-text.ts";

const HELP = `
The service keeps a record of every cancelled order and never lists it. This command deletes the
records of orders that were cancelled before a time. Give the time in ISO 8601, or give a date, which
means its midnight in UTC. Other orders do not change. The command deletes in small steps, so the
service keeps working. If the command is interrupted, run it again. With --env it asks for
confirmation first.

Examples:
  $ npm run orders -- purge --cancelled-before 2026-01-01 --dry-run
  $ npm run orders -- purge --cancelled-before 2026-01-01 --env production
  $ npm run -s orders -- purge --cancelled-before 2026-06-30T12:00:00Z --json`;

interface PurgeOptions extends StoreCommandOptions {
  readonly cancelledBefore: Date;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

/** Adds the command `orders purge` to a program. */
export function addPurgeCommand(program: Command): void {
  storeCommand(program, "purge")
    .description("delete the records of orders that were cancelled before a date")
    .requiredOption("--cancelled-before <date>", "date or time in ISO 8601, in the past", parseTime)
    .option("--dry-run", "only count the records", false)
    .addOption(yesOption())
    .addHelpText("after", HELP)
    .action(async (options: PurgeOptions) => {
      if (options.cancelledBefore.getTime() > Date.now()) {
        throw new Error(
          `${options.cancelledBefore.toISOString()} is in the future: name a time in the past`,
        );
      }
      await purgeAndPrint(options);
    });
}

async function purgeAndPrint(options: PurgeOptions): Promise<void> {
  const { env, cancelledBefore, dryRun, yes, json } = options;
  const { countCancelled, purgeCancelled } = await import("./purge.ts");
  const counted = await useDatabase(options, "orders", async (database) => {
    const count = await countCancelled(database, cancelledBefore);
    if (dryRun || count === 0) return count;
    if (env !== undefined && !yes) {
      const time = formatTime(cancelledBefore);
      await requireConfirmation(
        env,
        `This deletes ${formatCount(count, "cancelled order")} of ${env}, cancelled before ${time}, for good.`,
      );
    }
    return purgeCancelled(database, cancelledBefore, count);
  });
  if (json) printJson(dryRun ? { wouldPurge: counted } : { purged: counted });
  else
    process.stdout.write(
      `${dryRun ? "Would delete" : "Deleted"} ${formatCount(counted, "cancelled order")}.\n`,
    );
}
