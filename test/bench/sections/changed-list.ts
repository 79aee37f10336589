import type { Bench, Version } from "../bench.ts";
import { fasterLists, takeTurns } from "../compare.ts";
import { listRequest, timeList } from "../load.ts";
import { number, type Result } from "../report.ts";
import type { Server } from "../server.ts";

/**
 * The distance between the ids of orders that may change. A change toggles the field `complete`,
 * which all these orders have.
 */
const ORDERS_BETWEEN_CHANGES = 100;
/**
 * The distance between two successive changes, in orders that may change: a prime, so that the
 * changes are spread over the first half of the store.
 */
const STRIDE = 7_919;

/** Compares a large list after one order has changed with the baseline commit's. */
export async function changedList(bench: Bench): Promise<Result[]> {
  const { orders } = bench;
  const serve = (version: Version) => bench.serve({ version, orders });
  await using today = await serve("today");
  await using baseline = await serve("baseline");
  bench.say(`a list of ${orders} with one order changed before it`);
  const times = await takeTurns(bench.rounds, {
    service: await changedLists(bench, today),
    peer: await changedLists(bench, baseline),
  });
  const what = `${number(orders)} orders, one changed: speed, as a multiple of the baseline's`;
  return [fasterLists(what, times, 0.9)];
}

/**
 * Reads the list once, and returns a function that changes an order and measures the next list.
 */
async function changedLists(bench: Bench, server: Server) {
  const list = listRequest(server.url, bench.keys.unlimited[0]?.key ?? "");
  const choices = Math.floor(bench.orders / 2 / ORDERS_BETWEEN_CHANGES);
  let changes = 0;
  const measure = async () => {
    const times = await timeList(server, list);
    await server.process.idle();
    return times;
  };
  await measure();
  return async () => {
    const choice = (changes++ * STRIDE) % choices;
    await server.changeOrderList(choice * ORDERS_BETWEEN_CHANGES + 2);
    return measure();
  };
}
