import type { DatabaseQueries } from "../db/availability.ts";

interface Cancellation {
  readonly result: "cancelled" | "already_shipped" | "not_found";
  /** The list's sequence number after the cancellation; `null` without `needsSequence`. */
  readonly sequence: number | null;
}

// Two statements move the order. An UPDATE and a trigger for the move would write one more row.
const KEEP = `
  INSERT OR REPLACE INTO cancelled_orders (cancelled_at, id, pet_id, quantity, ship_date, complete)
  SELECT ?2, id, pet_id, quantity, ship_date, complete FROM orders
  WHERE id = CAST(?1 AS INTEGER) AND status = 'pending'`;

const REMOVE = `
  DELETE FROM orders WHERE id = CAST(?1 AS INTEGER) AND status = 'pending' RETURNING status`;

const SEQUENCE = "SELECT sequence FROM order_list WHERE id = 1";

const STATUS = "SELECT status FROM orders WHERE id = CAST(?1 AS INTEGER)";

/**
 * Cancels a pending order in one atomic step (docs/api.md, Cancelling). Returns `not_found` for an
 * order that was already cancelled.
 *
 * @throws {DatabaseUnavailableError} if the database does not respond. The order may be cancelled
 *   nevertheless; repeating the request is safe.
 */
export async function cancelOrder(
  database: D1Database,
  id: bigint,
  queries: DatabaseQueries,
  { needsSequence }: { readonly needsSequence: boolean },
): Promise<Cancellation> {
  const statements = [
    database.prepare(KEEP).bind(String(id), Date.now()),
    database.prepare(REMOVE).bind(String(id)),
    database.prepare(STATUS).bind(String(id)),
    ...(needsSequence ? [database.prepare(SEQUENCE)] : []),
  ];
  const [, cancelled, found, list] = await queries.run(() =>
    database.batch<{ status: string; sequence: number }>(statements),
  );
  const sequence = list?.results[0]?.sequence ?? null;
  if (cancelled !== undefined && cancelled.results.length > 0)
    return { result: "cancelled", sequence };
  const isShipped = found?.results[0]?.status === "shipped";
  return { result: isShipped ? "already_shipped" : "not_found", sequence };
}
