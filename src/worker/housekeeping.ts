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

/** Deletes up to `limit` rows that match a condition, in ascending order of `columns`. */
function deletion(table: SQLiteTable, columns: readonly SQLiteColumn[], isOld: SQL) {
  const key = sql.join([...columns], sql`, `);
  const old = sql`SELECT ${key} FROM ${table} WHERE ${isOld} ORDER BY ${key} LIMIT ${sql.placeholder("limit")}`;
  return Statement.ofSql<never>(() => sql`DELETE FROM ${table} WHERE (${key}) IN (${old})`);
}

/** Deletes parts of abandoned imports. An import is abandoned if even its newest part is old. */
const { importId, part, createdAt } = orderImportParts;
const DELETE_IMPORT_PARTS = deletion(
  orderImportParts,
  [importId, part],
  sql`${importId} NOT IN (SELECT ${importId} FROM ${orderImportParts} WHERE ${createdAt} >= ${olderThan})`,
);

const { renewedAt } = orderListLeases;
const DELETE_LIST_LEASES = deletion(
  orderListLeases,
  [orderListLeases.sequence],
  sql`${renewedAt} < ${olderThan}`,
);

/**
 * Deletes old changes. A list uses changes to read the orders as they were when it began. The last
 * change before the time `olderThan` and all later changes stay, for lists that began then or later,
 * and those since the first lease, for lists that began earlier.
 */
const { sequence } = orderChanges;
const DELETE_ORDER_CHANGES = deletion(
  orderChanges,
  [sequence],
  sql`${sequence} < min(
    (SELECT max(${sequence}) FROM ${orderChanges} WHERE ${sequence} <= ${olderThan} * 1000),
    ifnull((SELECT min(${orderListLeases.sequence}) FROM ${orderListLeases}), ${sql.raw(String(INT64_MAX))}))`,
);

const DELETE_USAGE = deletion(
  keyUsage,
  [keyUsage.day, keyUsage.keyId],
  sql`${keyUsage.day} < date(${olderThan} / 1000, 'unixepoch')`,
);

/** Deleting these rows does not change the list's version: the list has no cancelled orders. */
const { cancelledAt, position } = cancelledOrders;
const DELETE_CANCELLED_ORDERS = deletion(
  cancelledOrders,
  [position],
  // Positions are times too, and have an index.
  sql`${position} < ${olderThan} * 1000 AND ${cancelledAt} < ${olderThan}`,
);

/** A kind of old rows, deleted in steps. A step blocks the database for hundredths of a second. */
interface Chore {
  readonly database: DatabaseName;
  /** Deletes up to `limit` rows older than `olderThan`. */
  readonly statement: Statement<never>;
  /** If undefined, the var `CANCELLED_ORDER_DAYS` applies. */
  readonly keptDays?: number;
  readonly rowsPerStep: number;
}

/** The chores by the log field that counts the deleted rows. */
const CHORES: Readonly<Record<string, Chore>> = {
  // A part can have 2 MB, so a step deletes only a few.
  importParts: { database: "orders", statement: DELETE_IMPORT_PARTS, keptDays: 1, rowsPerStep: 10 },
  // A list that is still under way has renewed its lease within the last hours.
  listLeases: {
    database: "orders",
    statement: DELETE_LIST_LEASES,
    keptDays: 1,
    rowsPerStep: 1_000,
  },
  // Runs after `listLeases`. A store with 50 changes a second adds 180,000 rows an hour; an hourly
  // run deletes up to 200,000.
  orderChanges: {
    database: "orders",
    statement: DELETE_ORDER_CHANGES,
    keptDays: 1,
    rowsPerStep: 20_000,
  },
  // Usage is kept for at least a year, even if it is a leap year.
  usageRows: { database: "keys", statement: DELETE_USAGE, keptDays: 366, rowsPerStep: 5_000 },
  cancelledOrders: { database: "orders", statement: DELETE_CANCELLED_ORDERS, rowsPerStep: 5_000 },
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
    const { database, statement, rowsPerStep, keptDays = config.cancelledOrderDays } = chore;
    if (keptDays === undefined) continue;
    const queries = new DatabaseQueries(database, config.databaseTimeoutMs);
    const values = { olderThan: now.getTime() - keptDays * DAY_MS, limit: rowsPerStep };
    const bound = statement.bind(databases[database], values);
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
