import { and, eq, sql } from "drizzle-orm";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import { INT64_MAX, INT64_MIN } from "../../worker/orders/int64.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";

/** The number of orders at the beginning of the list among which a shipped order is looked for. */
const ORDERS_SEARCHED = 1_000;

/**
 * The fields of the pending order. A JSON parser that rounds would change the largest and smallest
 * int64.
 */
const FIELDS = {
  petId: INT64_MAX,
  quantity: INT64_MIN,
  shipDate: "2026-11-20T08:30:00.125Z",
  complete: false,
};

/** The orders that a verification tries to cancel. */
export interface OwnOrders {
  /** The order that the verification has placed, and removes at its end. */
  readonly pending: {
    readonly id: bigint;
    /** The JSON of the order in the list of orders. */
    readonly json: string;
  };
  /** An order of the store that has shipped; `null` if the first orders have not. */
  readonly shippedId: bigint | null;
}

/**
 * Returns a random id for the pending order. The id is one of the smallest int64, so that the order
 * is at the beginning of the list. A service that converts ids to JavaScript numbers changes almost
 * all of these ids.
 */
export function randomOrderId(): bigint {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1));
  return INT64_MIN + BigInt.asUintN(61, random);
}

/** Places the pending order, and finds a shipped order near the beginning of the list. */
export async function placeOwnOrders(database: StoreDatabase, id: bigint): Promise<OwnOrders> {
  const { orm } = database;
  await database.transaction(toStatements([orm.insert(orders).values({ ...FIELDS, id })]));
  const first = orm
    .select({ id: sql<string>`${orders.id} || ''`.as("text"), status: orders.status })
    .from(orders)
    .orderBy(orders.id)
    .limit(ORDERS_SEARCHED)
    .as("first");
  const [shipped] = await orm
    .select({ id: first.id })
    .from(first)
    .where(eq(first.status, "shipped"))
    .limit(1);
  const { petId, quantity, shipDate, complete } = FIELDS;
  const json = `{"id":${id},"petId":${petId},"quantity":${quantity},"shipDate":"${shipDate}","complete":${complete}}`;
  return { pending: { id, json }, shippedId: shipped === undefined ? null : BigInt(shipped.id) };
}

/** Removes the pending order, cancelled or not, and the record of its cancellation. */
export async function removeOwnOrder(database: StoreDatabase, id: bigint): Promise<void> {
  const { orm } = database;
  const isOwn = and(eq(orders.id, id), eq(orders.petId, FIELDS.petId));
  await database.transaction(
    toStatements([
      orm.delete(orders).where(isOwn),
      orm.delete(cancelledOrders).where(eq(cancelledOrders.id, id)),
    ]),
  );
}
