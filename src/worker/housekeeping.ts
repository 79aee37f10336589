import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { keyUsage } from "../schema/keys.ts";
import {
  cancelledOrders,
  orderChanges,
  orderImportParts,
  orderListLeases,
} from "../schema/orders.ts";
import { DAY_MS } from "../rules/days.ts";
import { INT64_MAX } from "../rules/int64.ts";
import type { Config } from "../rules/config.ts";
import { DatabaseQueries } from "./db/availability.ts";
import { Statement } from "./db/statement.ts";
import { logEvent } from "./log.ts";
import type { DatabaseName } from "../schema/databases.ts";

/** How many statements each chore may use per run. Cloudflare's free plan allows 50 in total. */
const MAX_STEPS = 10;

/** Unix milliseconds: a chore deletes older rows. */
const olderThan = sql.placeholder("olderThan");

/** A kind of old rows, deleted in steps. A step blocks the database for hundredths of a second. */
interface Chore {
  readonly database: DatabaseName;
  /** If undefined, the var `CANCELLED_ORDER_DAYS` applies. */
  readonly keptDays?: number;
  readonly rowsPerStep: number;
  readonly table: SQLiteTable;
  /** Rows are deleted in ascending order of these columns. */
  readonly key: readonly SQLiteColumn[];
  readonly isOld: SQL;
}

const { importId, part, createdAt } = orderImportParts;
const { sequence } = orderChanges;
const { cancelledAt, position } = cancelledOrders;

/** The chores by the log field that counts the deleted rows. */
const CHORES: Readonly<Record<string, Chore>> = {
  // The parts of abandoned imports: even the newest part is old. A part can have 2 MB.
  importParts: {
    database: "orders",
    keptDays: 1,
    rowsPerStep: 10,
    table: orderImportParts,
    key: [importId, part],
    isOld: sql`${importId} NOT IN (SELECT ${importId} FROM ${orderImportParts} WHERE ${createdAt} >= ${olderThan})`,
  },
  // A list that is still under way has renewed its lease within the last hours.
  listLeases: {
    database: "orders",
    keptDays: 1,
    rowsPerStep: 1_000,
    table: orderListLeases,
    key: [orderListLeases.sequence],
    isOld: sql`${orderListLeases.renewedAt} < ${olderThan}`,
  },
  // A list uses changes to read the orders as they were when it began. The last change before
  // `olderThan` and all later ones stay, for lists that began then or later, and those since the first
  // lease, for earlier lists: so this runs after `listLeases`. A store with 50 changes a second adds
  // 180,000 rows an hour; an hourly run deletes up to 200,000.
  orderChanges: {
    database: "orders",
    keptDays: 1,
    rowsPerStep: 20_000,
    table: orderChanges,
    key: [sequence],
    isOld: sql`${sequence} < min(
      (SELECT max(${sequence}) FROM ${orderChanges} WHERE ${sequence} <= ${olderThan} * 1000),
      ifnull((SELECT min(${orderListLeases.sequence}) FROM ${orderListLeases}), ${sql.raw(String(INT64_MAX))}))`,
  },
  // Usage is kept for at least a year, even if it is a leap year.
  usageRows: {
    database: "keys",
    keptDays: 366,
    rowsPerStep: 5_000,
    table: keyUsage,
    key: [keyUsage.day, keyUsage.keyId],
    isOld: sql`${keyUsage.day} < date(${olderThan} / 1000, 'unixepoch')`,
  },
  // Does not change the list's version: the list has no cancelled orders.
  cancelledOrders: {
    database: "orders",
    rowsPerStep: 5_000,
    table: cancelledOrders,
    key: [position],
    // Positions are times too, and have an index.
    isOld: sql`${position} < ${olderThan} * 1000 AND ${cancelledAt} < ${olderThan}`,
  },
};

/** Deletes up to `limit` rows that are old at `olderThan`. */
function deletion({ table, key, isOld }: Chore) {
  const columns = sql.join([...key], sql`, `);
  const old = sql`SELECT ${columns} FROM ${table} WHERE ${isOld} ORDER BY ${columns} LIMIT ${sql.placeholder("limit")}`;
  return Statement.ofSql<never>(() => sql`DELETE FROM ${table} WHERE (${columns}) IN (${old})`);
}

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
    const { database, rowsPerStep, keptDays = config.cancelledOrderDays } = chore;
    if (keptDays === undefined) continue;
    const queries = new DatabaseQueries(database, config.databaseTimeoutMs);
    const values = { olderThan: now.getTime() - keptDays * DAY_MS, limit: rowsPerStep };
    const bound = deletion(chore).bind(databases[database], values);
    try {
      let rows = rowsPerStep;
      for (let step = 0; step < MAX_STEPS && rows === rowsPerStep; step += 1) {
        const { meta } = await queries.run(() => bound.run(), { isRepeatable: true });
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
