import type { Config } from "./config.ts";
import { type DatabaseName, DatabaseQueries } from "./db/availability.ts";
import { logEvent } from "./log.ts";

const DAY_MS = 86_400_000;
const IMPORT_PARTS_KEPT_DAYS = 1;
/** Longer than the slowest client takes for a list of a million orders. */
const ORDER_CHANGES_KEPT_DAYS = 1;
/** A leap year, so usage is kept for at least one year. */
const USAGE_KEPT_DAYS = 366;

/** The statements of each chore in one run: four chores, and Cloudflare's free plan allows 50. */
const MAX_STEPS = 10;
/** Deleting this many rows blocks the database for only some hundredths of a second. */
const ROWS_PER_STEP = 5_000;
/** A store with 50 changes a second makes 180,000 rows an hour. These rows are small. */
const CHANGES_PER_STEP = 20_000;
/** The number of import parts to delete in one step. Small, because a part has up to 2 MB. */
const PARTS_PER_STEP = 10;

/** Old rows to delete in steps: `sql` deletes up to `?2` rows older than `?1`. */
interface Chore {
  /** The log field that counts the deleted rows. */
  readonly removes: "importParts" | "orderChanges" | "usageRows" | "cancelledOrders";
  readonly database: DatabaseName;
  readonly sql: string;
  readonly olderThan: string | number;
  readonly rowsPerStep: number;
}

/** Deletes parts of abandoned imports. An import is abandoned if even its newest part is old. */
const DELETE_IMPORT_PARTS = `
  DELETE FROM order_import_parts WHERE (import_id, part) IN (
    SELECT import_id, part FROM order_import_parts
    WHERE import_id NOT IN (SELECT import_id FROM order_import_parts WHERE created_at >= ?1)
    LIMIT ?2)`;

/**
 * Deletes former states of orders that no list needs. A list that began at the time `?1` or later
 * is read as of the last change before it or a later one, so that change and all later ones stay.
 */
export const DELETE_ORDER_CHANGES = `
  DELETE FROM order_changes WHERE sequence IN (
    SELECT sequence FROM order_changes
    WHERE sequence < (SELECT max(sequence) FROM order_changes WHERE sequence <= ?1)
    ORDER BY sequence LIMIT ?2)`;

const DELETE_USAGE = `
  DELETE FROM key_usage WHERE (day, key_id) IN (
    SELECT day, key_id FROM key_usage WHERE day < ?1 ORDER BY day, key_id LIMIT ?2)`;

const DELETE_CANCELLED_ORDERS = `
  DELETE FROM cancelled_orders WHERE (cancelled_at, id) IN (
    SELECT cancelled_at, id FROM cancelled_orders
    WHERE cancelled_at < ?1 ORDER BY cancelled_at, id LIMIT ?2)`;

/**
 * Deletes old rows in small steps, and logs how many. A run deletes a limited number; the next run
 * deletes the rest.
 *
 * @throws the error of the first chore that failed, after the other chores have run.
 */
export async function keepHouse(
  { ORDERS, KEYS }: Pick<Cloudflare.Env, "ORDERS" | "KEYS">,
  config: Config,
  now: Date,
): Promise<void> {
  const databases = { orders: ORDERS, keys: KEYS };
  const removed: Partial<Record<Chore["removes"], number>> = {};
  const errors: unknown[] = [];
  let isComplete = true;
  for (const { removes, database, sql, olderThan, rowsPerStep } of choresOf(config, now)) {
    const queries = new DatabaseQueries(database, config.databaseTimeoutMs);
    const statement = databases[database].prepare(sql).bind(olderThan, rowsPerStep);
    try {
      let rows = rowsPerStep;
      for (let step = 0; step < MAX_STEPS && rows === rowsPerStep; step += 1) {
        const { meta } = await queries.run(() => statement.run(), { isRepeatable: true });
        rows = meta.changes;
        removed[removes] = (removed[removes] ?? 0) + rows;
      }
      if (rows === rowsPerStep) isComplete = false;
    } catch (error) {
      logEvent({ event: "housekeeping_failed", chore: removes, error });
      errors.push(error);
    }
  }
  if (Object.values(removed).some((rows) => rows > 0)) {
    logEvent({ event: "housekeeping", ...removed, isComplete });
  }
  if (errors.length > 0) throw errors[0];
}

function choresOf({ cancelledOrderDays }: Config, now: Date): Chore[] {
  const daysAgo = (days: number) => new Date(now.getTime() - days * DAY_MS);
  const chores: Chore[] = [
    {
      removes: "importParts",
      database: "orders",
      sql: DELETE_IMPORT_PARTS,
      olderThan: daysAgo(IMPORT_PARTS_KEPT_DAYS).getTime(),
      rowsPerStep: PARTS_PER_STEP,
    },
    {
      removes: "orderChanges",
      database: "orders",
      sql: DELETE_ORDER_CHANGES,
      olderThan: daysAgo(ORDER_CHANGES_KEPT_DAYS).getTime() * 1_000,
      rowsPerStep: CHANGES_PER_STEP,
    },
    {
      removes: "usageRows",
      database: "keys",
      sql: DELETE_USAGE,
      olderThan: daysAgo(USAGE_KEPT_DAYS).toISOString().slice(0, 10),
      rowsPerStep: ROWS_PER_STEP,
    },
  ];
  if (cancelledOrderDays === undefined) return chores;
  return [
    ...chores,
    {
      removes: "cancelledOrders",
      database: "orders",
      sql: DELETE_CANCELLED_ORDERS,
      olderThan: daysAgo(cancelledOrderDays).getTime(),
      rowsPerStep: ROWS_PER_STEP,
    },
  ];
}
