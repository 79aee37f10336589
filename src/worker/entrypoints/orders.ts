import { WorkerEntrypoint } from "cloudflare:workers";
import * as z from "zod/mini";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import type { OrderRecord } from "../../rules/order.ts";
import { readCancellations } from "../../store/orders/cancellations.ts";
import { findOrder, type FoundOrder } from "../../store/orders/find-order.ts";
import { placeOrders } from "../../store/orders/placement.ts";
import { shipOrders } from "../../store/orders/ship.ts";
import { answer, databases, dateInput, limitInput } from "./answer.ts";

/** How many orders one call may name. */
const MAX_ORDERS = 1_000;
const int64Input = z.bigint().check(z.minimum(INT64_MIN), z.maximum(INT64_MAX));
const orderInput = z.strictObject({
  id: int64Input,
  petId: z.optional(int64Input),
  quantity: z.optional(int64Input),
  shipDate: z.optional(dateInput),
  complete: z.optional(z.boolean()),
  status: z._default(z.enum(["pending", "shipped"]), "pending"),
} satisfies Record<keyof OrderRecord, z.ZodMiniType>);
const placeInput = z.object({
  orders: z.array(orderInput).check(z.minLength(1), z.maxLength(MAX_ORDERS)),
});
const shipInput = z.object({
  ids: z.array(int64Input).check(z.minLength(1), z.maxLength(MAX_ORDERS)),
});
const getInput = z.object({ id: int64Input });
const position = z.bigint().check(z.minimum(0n), z.maximum(2n ** 53n - 1n));
const cancellationsInput = z.prefault(
  z.strictObject({ after: z.nullish(position), limit: limitInput }),
  {},
);

/** An order to place. A field that is left out is missing in the order. */
export type OrderToPlace = z.input<typeof orderInput>;

type Present<Fields> = { readonly [Name in keyof Fields]?: NonNullable<Fields[Name]> };

/** An order of the store. A field that the order lacks is left out. */
export type StoredOrder = Pick<FoundOrder, "id" | "status"> &
  Present<Omit<FoundOrder, "id" | "status" | "shipDate">> & { readonly shipDate?: Date };

/** The door for Workers of the same account that place and ship orders (docs/operating.md). */
export class Orders extends WorkerEntrypoint {
  /**
   * Places 1 to 1,000 orders, all or none: inserts or replaces by `id`.
   *
   * @returns how many orders were new, replaced, shipped by this call, and unchanged.
   */
  place(orders: readonly OrderToPlace[]) {
    return answer(placeInput, { orders }, (input) => {
      const records = input.orders.map(({ shipDate, ...order }): OrderRecord => {
        return shipDate === undefined ? order : { ...order, shipDate: shipDate.toISOString() };
      });
      return placeOrders(databases.orders, records);
    });
  }

  /** Ships 1 to 1,000 pending orders. Of `ship` and a cancellation of one order, exactly one wins. */
  ship(ids: readonly bigint[]) {
    return answer(shipInput, { ids }, async (input) => {
      return { results: await shipOrders(databases.orders, input.ids) };
    });
  }

  /** Returns an order, also a cancelled one; `null` if there has been none with this id. */
  get(id: bigint) {
    return answer(getInput, { id }, async (input) => {
      const found = await findOrder(databases.orders.orm, input.id);
      return found === undefined ? null : toStoredOrder(found);
    });
  }

  /**
   * Returns up to `limit` (100) orders that were cancelled after the position `after`, in the order
   * in which they were cancelled. Without `after`, begins with the first. A reader that passes
   * `next` as its next `after` receives every cancellation exactly once.
   */
  cancellations(input?: z.input<typeof cancellationsInput>) {
    return answer(cancellationsInput, input, async ({ after, limit }) => {
      const rows = await readCancellations(databases.orders.orm, Number(after ?? 0), limit);
      const next = BigInt(rows.at(-1)?.position ?? after ?? 0);
      const cancellations = rows.map(({ position: _position, ...order }) =>
        toStoredOrder({ ...order, status: "cancelled" }),
      );
      return { cancellations, next };
    });
  }
}

function toStoredOrder({ shipDate, ...order }: FoundOrder): StoredOrder {
  const fields = { ...order, shipDate: shipDate === null ? null : new Date(shipDate) };
  const present = Object.entries(fields).filter(([, value]) => value !== null);
  return Object.fromEntries(present) as unknown as StoredOrder;
}
