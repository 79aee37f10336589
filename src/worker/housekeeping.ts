import { DAY_MS } from "../rules/days.ts";
import type { Config } from "../rules/config.ts";
import { type DatabaseName, DatabaseQueries } from "./db/availability.ts";
import { logEvent } from "./log.ts";

/** How many statements each chore may use per run. Cloudflare's free plan allows 50 in total. */
const MAX_STEPS = 10;

/** Deletes parts of abandoned imports. An import is abandoned if even its newest part is old. */
const DELETE_IMPORT_PARTS = `
  DELETE FROM order_import_parts WHERE (import_id, part) IN (
    SELECT import_id, part FROM order_import_parts
    WHERE import_id NOT IN (SELECT import_id FROM order_import_parts WHERE created_at >= ?1)
    LIMIT ?2)`;

/**
 * Deletes old changes. A list uses changes to read the orders as they were when it began. The last
 * change before the time `?1` and all later changes stay, for lists that began at `?1` or later.
 */
export const DELETE_ORDER_CHANGES = `
  DELETE FROM order_changes WHERE sequence IN (
    SELECT sequence FROM order_changes
    WHERE sequence < (SELECT max(sequence) FROM order_changes WHERE sequence <= ?1 * 1000)
    ORDER BY sequence LIMIT ?2)`;

const DELETE_USAGE = `
  DELETE FROM key_usage WHERE (day, key_id) IN (
    SELECT day, key_id FROM key_usage
    WHERE day < date(?1 / 1000, 'unixepoch') ORDER BY day, key_id LIMIT ?2)`;

/** Deleting these rows does not change the list's version: the list has no cancelled orders. */
const DELETE_CANCELLED_ORDERS = `
  DELETE FROM cancelled_orders WHERE (cancelled_at, id) IN (
    SELECT cancelled_at, id FROM cancelled_orders
    WHERE cancelled_at < ?1 ORDER BY cancelled_at, id LIMIT ?2)`;

/** A kind of old rows, deleted in steps. A step blocks the database for hundredths of a second. */
interface Chore {
  readonly database: DatabaseName;
  /** Deletes up to `?2` rows older than `?1`, a Unix time in milliseconds. */
  readonly sql: string;
  /** If undefined, the var `CANCELLED_ORDER_DAYS` applies. */
  readonly keptDays?: number;
  readonly rowsPerStep: number;
}

/** The chores by the log field that counts the deleted rows. */
const CHORES: Readonly<Record<string, Chore>> = {
  // A part can have 2 MB, so a step deletes only a few.
  importParts: { database: "orders", sql: DELETE_IMPORT_PARTS, keptDays: 1, rowsPerStep: 10 },
  // Changes are kept for a day: no client takes longer to read a list of a million orders. A store
  // with 50 changes a second adds 180,000 rows an hour; an hourly run deletes up to 200,000.
  orderChanges: { database: "orders", sql: DELETE_ORDER_CHANGES, keptDays: 1, rowsPerStep: 20_000 },
  // Usage is kept for at least a year, even if it is a leap year.
  usageRows: { database: "keys", sql: DELETE_USAGE, keptDays: 366, rowsPerStep: 5_000 },
  cancelledOrders: { database: "orders", sql: DELETE_CANCELLED_ORDERS, rowsPerStep: 5_000 },
};

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
  const removed: Record<string, number> = {};
  const errors: unknown[] = [];
  let isComplete = true;
  for (const [name, chore] of Object.entries(CHORES)) {
    const { database, sql, rowsPerStep, keptDays = config.cancelledOrderDays } = chore;
    if (keptDays === undefined) continue;
    const queries = new DatabaseQueries(database, config.databaseTimeoutMs);
    const olderThanMs = now.getTime() - keptDays * DAY_MS;
    const statement = databases[database].prepare(sql).bind(olderThanMs, rowsPerStep);
    try {
      let rows = rowsPerStep;
      for (let step = 0; step < MAX_STEPS && rows === rowsPerStep; step += 1) {
        const { meta } = await queries.run(() => statement.run(), { isRepeatable: true });
        rows = meta.changes;
        removed[name] = (removed[name] ?? 0) + rows;
      }
      if (rows === rowsPerStep) isComplete = false;
    } catch (error) {
      isComplete = false;
      logEvent({ event: "housekeeping_failed", chore: name, error });
      errors.push(error);
    }
  }
  if (Object.values(removed).some((rows) => rows > 0)) {
    logEvent({ event: "housekeeping", ...removed, isComplete });
  }
  if (errors.length > 0) throw errors[0];
}
