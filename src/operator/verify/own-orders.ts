import { and, eq, sql } from "drizzle-orm";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import { INT64_MAX, INT64_MIN } from "../../worker/orders/int64.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";

/**
 * The id of the shipped order that a verification places. A service that converts ids to JavaScript
 * numbers changes this id.
 */
export const SHIPPED_ID = -9_007_199_254_740_993n;
/**
 * Ids of pending orders are random and at least this large. A service that converts ids to
 * JavaScript numbers changes almost all of these ids.
 */
const LEAST_PENDING_ID = 2n ** 62n;

interface OwnOrder {
  readonly id: bigint;
  /** The JSON of the order in the list of orders. */
  readonly json: string;
}

/** The orders that a verification has placed. */
export interface OwnOrders {
  /** The order that the verification cancels. */
  readonly pending: OwnOrder;
  /** The order that stays in the store, because a shipped order cannot be removed. */
  readonly shipped: OwnOrder;
}

/**
 * Places a pending order. Also places a shipped order, unless an earlier verification has placed
 * it.
 *
 * @throws an Error for the operator if a different order has the id of the shipped order.
 */
export async function placeOwnOrders(database: StoreDatabase): Promise<OwnOrders> {
  const { orm } = database;
  const pending = { ...FIELDS, id: randomId() };
  const shipped = { ...FIELDS, id: SHIPPED_ID, status: "shipped" as const };
  await database.transaction(
    toStatements([
      orm.insert(orders).values(pending),
      orm.insert(orders).values(shipped).onConflictDoNothing(),
    ]),
  );
  const same = and(
    eq(orders.id, SHIPPED_ID),
    eq(orders.status, "shipped"),
    eq(orders.petId, FIELDS.petId),
    eq(orders.shipDate, FIELDS.shipDate),
  );
  const found = await orm
    .select({ one: sql<number>`1`.as("one") })
    .from(orders)
    .where(same);
  if (found.length === 1) return { pending: listed(pending), shipped: listed(shipped) };
  await removeOwnOrder(database, pending.id);
  throw new Error(`another order has the id ${SHIPPED_ID}: verify this store without --write`);
}

/** Removes an order, cancelled or not, and the record of its cancellation. */
export async function removeOwnOrder(database: StoreDatabase, id: bigint): Promise<void> {
  const { orm } = database;
  await database.transaction(
    toStatements([
      orm.delete(orders).where(eq(orders.id, id)),
      orm.delete(cancelledOrders).where(eq(cancelledOrders.id, id)),
    ]),
  );
}

/**
 * The fields that the pending order and the shipped order share. A JSON parser that rounds would
 * change the largest and smallest int64.
 */
const FIELDS = {
  petId: INT64_MAX,
  quantity: INT64_MIN,
  shipDate: "2026-11-20T08:30:00.125Z",
  complete: false,
};

function listed({
  id,
  petId,
  quantity,
  shipDate,
  complete,
}: typeof FIELDS & { id: bigint }): OwnOrder {
  const json = `{"id":${id},"petId":${petId},"quantity":${quantity},"shipDate":"${shipDate}","complete":${complete}}`;
  return { id, json };
}

function randomId(): bigint {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1));
  return LEAST_PENDING_ID + BigInt.asUintN(61, random);
}
