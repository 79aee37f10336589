import { WorkerEntrypoint } from "cloudflare:workers";
import * as z from "zod/mini";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import type { OrderRecord } from "../../rules/order.ts";
import { readCancellations } from "../../store/orders/cancellations.ts";
import { findOrder, type FoundOrder } from "../../store/orders/find-order.ts";
import { type Comparison, placeOrders } from "../../store/orders/placement.ts";
import { type Shipping, shipOrders } from "../../store/orders/ship.ts";
import {
  answer,
  bigInteger,
  closedObject,
  databaseOf,
  limitInput,
  type Refused,
} from "./answer.ts";

/** How many orders one call may name. */
const MAX_ORDERS = 1_000;
const LAST_YEAR_END = new Date("9999-12-31T23:59:59.999Z");

const int64Input = bigInteger(INT64_MIN, INT64_MAX);
const orderInput = closedObject({
  id: int64Input,
  petId: z.optional(int64Input),
  quantity: z.optional(int64Input),
  shipDate: z.optional(
    z
      .date("expected a Date")
      .check(
        z.minimum(new Date("0000-01-01"), "expected a Date from the year 0 on"),
        z.maximum(LAST_YEAR_END, "expected a Date before the year 10000"),
      ),
  ),
  complete: z.optional(z.boolean("expected true or false")),
  status: z._default(z.enum(["pending", "shipped"], 'expected "pending" or "shipped"'), "pending"),
});

const someOf = <T extends z.ZodMiniType>(element: T, what: string) => {
  const expected = `expected 1 to ${MAX_ORDERS} ${what}`;
  return z
    .array(element, expected)
    .check(z.minLength(1, expected), z.maxLength(MAX_ORDERS, expected));
};
const placeInput = z.object({ orders: someOf(orderInput, "orders") });
const shipInput = z.object({ ids: someOf(int64Input, "ids") });
const getInput = z.object({ id: int64Input });
const position = bigInteger(0n, 2n ** 53n - 1n, "a bigint that a call has returned as `next`");
const cancellationsInput = z.prefault(
  closedObject({ after: z.nullish(position), limit: limitInput }),
  {},
);

/** An order to place. A field that is left out is missing in the order. */
export type OrderToPlace = z.input<typeof orderInput>;

/** An order of the store. A field that the order lacks is left out. */
export interface StoredOrder {
  readonly id: bigint;
  readonly petId?: bigint;
  readonly quantity?: bigint;
  readonly shipDate?: Date;
  readonly complete?: boolean;
  readonly status: "pending" | "shipped" | "cancelled";
  /** Only of a cancelled order. */
  readonly cancelledAt?: Date;
  /** The id of the API key that cancelled the order, if it is known. */
  readonly cancelledBy?: string;
}

export interface Cancellations {
  readonly ok: true;
  /** The cancelled orders, in the order in which they were cancelled. */
  readonly cancellations: readonly StoredOrder[];
  /** Where the next call goes on. The same as `after` if nothing was cancelled since. */
  readonly next: bigint;
}

/** The door for Workers of the same account that place and ship orders (docs/operating.md). */
export class Orders extends WorkerEntrypoint<Cloudflare.Env> {
  /**
   * Places 1 to 1,000 orders, all or none: inserts or replaces by `id`.
   *
   * @returns how many orders were new, replaced, shipped by this call, and unchanged.
   */
  place(orders: readonly OrderToPlace[]): Promise<({ readonly ok: true } & Comparison) | Refused> {
    return answer(placeInput, { orders }, async (input) => {
      const records = input.orders.map(({ shipDate, ...order }): OrderRecord => {
        return shipDate === undefined ? order : { ...order, shipDate: shipDate.toISOString() };
      });
      return { ok: true, ...(await placeOrders(this.#database, records)) };
    });
  }

  /** Ships 1 to 1,000 pending orders. Of `ship` and a cancellation of one order, exactly one wins. */
  ship(ids: readonly bigint[]): Promise<
    | {
        readonly ok: true;
        readonly results: readonly { readonly id: bigint; readonly result: Shipping }[];
      }
    | Refused
  > {
    return answer(shipInput, { ids }, async (input) => {
      return { ok: true, results: await shipOrders(this.#database, input.ids) };
    });
  }

  /** Returns an order, also a cancelled one; `null` if there has been none with this id. */
  get(id: bigint): Promise<({ readonly ok: true } & StoredOrder) | null | Refused> {
    return answer(getInput, { id }, async (input) => {
      const found = await findOrder(this.#database.orm, input.id);
      return found === undefined ? null : { ok: true as const, ...toStoredOrder(found) };
    });
  }

  /**
   * Returns up to `limit` (100) orders that were cancelled after the position `after`. Without
   * it, the first ones.
   * A reader that passes `next` as its next `after` receives every cancellation exactly once.
   */
  cancellations(input?: {
    readonly after?: bigint | null;
    readonly limit?: number;
  }): Promise<Cancellations | Refused> {
    return answer(cancellationsInput, input, async ({ after: given, limit }) => {
      const after = given ?? 0n;
      const rows = await readCancellations(this.#database.orm, Number(after), limit);
      const last = rows.at(-1);
      return {
        ok: true,
        cancellations: rows.map((row) => toStoredOrder({ ...row, status: "cancelled" })),
        next: last === undefined ? after : BigInt(last.position),
      };
    });
  }

  get #database() {
    return databaseOf(this.env, "orders");
  }
}

function toStoredOrder(order: FoundOrder): StoredOrder {
  const { id, petId, quantity, shipDate, complete, status, cancelledAt, cancelledBy } = order;
  const date = shipDate === null ? null : new Date(shipDate);
  const all = { id, petId, quantity, shipDate: date, complete, status, cancelledAt, cancelledBy };
  const present = Object.entries(all).filter(([, value]) => value !== null);
  return Object.fromEntries(present) as unknown as StoredOrder;
}
