import sql from "sql-template-tag";
import type { StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";

/** A statement deletes up to this many records, so that requests wait less than 0.1 seconds. */
const STEP_ORDERS = 10_000;

export async function countCancelled(database: StoreDatabase, before: Date): Promise<number> {
  const [row] = await database.all<{ count: number }>(
    sql`SELECT count(*) AS count FROM cancelled_orders WHERE cancelled_at < ${before.getTime()}`,
  );
  return row?.count ?? 0;
}

/**
 * Deletes the records of orders that were cancelled before a time. Small transactions let the
 * service use the database in between. Safe to repeat. Only the progress display uses `total`.
 */
export async function purgeCancelled(
  database: StoreDatabase,
  before: Date,
  total: number,
): Promise<number> {
  using progress = startProgress({ doing: "Deleting", unit: "orders", total });
  const step = sql`
    DELETE FROM cancelled_orders WHERE (cancelled_at, id) IN (
      SELECT cancelled_at, id FROM cancelled_orders WHERE cancelled_at < ${before.getTime()}
      ORDER BY cancelled_at, id LIMIT ${STEP_ORDERS})
    RETURNING 1 AS one`;
  let purged = 0;
  for (;;) {
    const deleted = await database.all(step);
    purged += deleted.length;
    progress.advance(deleted.length);
    if (deleted.length < STEP_ORDERS) return purged;
  }
}
