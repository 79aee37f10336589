import { drizzle } from "drizzle-orm/d1";
import type { Config } from "./config.ts";
import { type DatabaseName, DatabaseQueries } from "./db/availability.ts";
import { logEvent } from "./log.ts";
import { deleteCancelled } from "./orders/cancelled-orders.ts";
import { deleteAbandonedParts } from "./orders/import-parts.ts";
import { deleteUsageBefore } from "./usage/delete-usage.ts";

const DAY_MS = 86_400_000;
const IMPORT_PARTS_KEPT_DAYS = 1;
/** A year, and a day of a leap year. */
const USAGE_KEPT_DAYS = 366;

/** With three chores, a run stays below the 50 queries of Cloudflare's free plan. */
const MAX_STEPS = 10;
/** A step keeps its database waiting for some hundredths of a second. */
const ROWS_PER_STEP = 5_000;
/** A part has up to 2 MB. */
const PARTS_PER_STEP = 10;

interface Chore {
  /** What it removes, as the log names it. */
  readonly removes: "importParts" | "usageRows" | "cancelledOrders";
  readonly database: DatabaseName;
  readonly rowsPerStep: number;
  /** Deletes up to `rowsPerStep` rows and returns their number. */
  readonly step: () => Promise<number>;
}

/**
 * Deletes parts of imports that were left for a day, usage older than a year, and, if configured,
 * orders that were cancelled long ago. A run deletes a bounded number of rows in small steps; the
 * next run goes on. Logs what it removed.
 *
 * @throws the error of the first chore that failed, after the other chores.
 */
export async function keepHouse(
  { ORDERS, KEYS }: Pick<Cloudflare.Env, "ORDERS" | "KEYS">,
  { cancelledOrderDays, databaseTimeoutMs }: Config,
  now: Date,
): Promise<void> {
  const [orders, keys] = [drizzle(ORDERS), drizzle(KEYS)];
  const daysAgo = (days: number) => new Date(now.getTime() - days * DAY_MS);
  const chores: Chore[] = [
    {
      removes: "importParts",
      database: "orders",
      rowsPerStep: PARTS_PER_STEP,
      step: () => deleteAbandonedParts(orders, daysAgo(IMPORT_PARTS_KEPT_DAYS), PARTS_PER_STEP),
    },
    {
      removes: "usageRows",
      database: "keys",
      rowsPerStep: ROWS_PER_STEP,
      step: () => deleteUsageBefore(keys, daysAgo(USAGE_KEPT_DAYS), ROWS_PER_STEP),
    },
  ];
  if (cancelledOrderDays !== undefined) {
    chores.push({
      removes: "cancelledOrders",
      database: "orders",
      rowsPerStep: ROWS_PER_STEP,
      step: () => deleteCancelled(orders, daysAgo(cancelledOrderDays), ROWS_PER_STEP),
    });
  }

  const removed: Partial<Record<Chore["removes"], number>> = {};
  const errors: unknown[] = [];
  let isComplete = true;
  for (const chore of chores) {
    try {
      const queries = new DatabaseQueries(chore.database, databaseTimeoutMs);
      let rows = chore.rowsPerStep;
      for (let steps = 0; steps < MAX_STEPS && rows === chore.rowsPerStep; steps += 1) {
        rows = await queries.run(chore.step, { isRepeatable: true });
        removed[chore.removes] = (removed[chore.removes] ?? 0) + rows;
      }
      if (rows === chore.rowsPerStep) isComplete = false;
    } catch (error) {
      logEvent({ event: "housekeeping_failed", chore: chore.removes, error });
      errors.push(error);
    }
  }
  if (Object.values(removed).some((rows) => rows > 0)) {
    logEvent({ event: "housekeeping", ...removed, isComplete });
  }
  if (errors.length > 0) throw errors[0];
}
