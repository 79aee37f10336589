import { count, gte, sql } from "drizzle-orm";
import { orders } from "../../../db/schema.ts";
import { type Expansion, OrderExpander } from "../../../orders/order-expander.ts";
import { orderShorthand, SEPARATOR, Shorthand } from "../../../orders/shorthand.ts";
import { assembleExpansion } from "../../build/expansion.ts";
import { LIST_PAGE_ORDERS } from "../operations.ts";
import type { SampleDatabase } from "./sample-database.ts";

const ROUNDS = 15;

/** Node has it, though its types do not. */
const { WebAssembly } = globalThis as unknown as {
  WebAssembly: {
    instantiate(bytes: Uint8Array): Promise<{ instance: { exports: Expansion } }>;
  };
};

/** What a page of the list of orders takes. */
export interface ListFigures {
  /** Bytes of an order in a list, its comma included. */
  readonly listedOrderBytes: number;
  /** The database's time to read a page of orders and write it as the JSON text that D1 sends, in milliseconds. */
  readonly pageReadMs: number;
  /** The Worker's processor time to make one order of that text, in milliseconds. */
  readonly orderCpuMs: number;
}

/** Reads the first page of a list that has as many orders, again and again. */
export async function measureList(database: SampleDatabase): Promise<ListFigures> {
  const { instance } = await WebAssembly.instantiate(await assembleExpansion());
  const expander = new OrderExpander(instance.exports);
  const page = database.orm
    .select({ shorthand: orderShorthand.as("shorthand") })
    .from(orders)
    .where(gte(orders.id, 0n))
    .orderBy(orders.id)
    .limit(LIST_PAGE_ORDERS)
    .as("page");
  const query = database.orm
    .select({ count: count(), text: sql`group_concat(shorthand, ${SEPARATOR})` })
    .from(page)
    .toSQL();
  const read = () => JSON.stringify(database.run(query));
  const text = read();
  const write = () => {
    const [[, joined] = []] = JSON.parse(text) as [number, string][];
    const shorthand = Shorthand.fromText(joined ?? "");
    return expander.expand(shorthand, 0, shorthand.length, { opening: "[", closing: "]" });
  };
  return {
    listedOrderBytes: write().length / LIST_PAGE_ORDERS,
    pageReadMs: fastestMs(read),
    orderCpuMs: fastestMs(write) / LIST_PAGE_ORDERS,
  };
}

/** The fastest of several rounds: other work on the machine, and a cold start, only add to it. */
function fastestMs(work: () => unknown): number {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const startedMs = performance.now();
    work();
    return performance.now() - startedMs;
  });
  return Math.min(...rounds);
}
