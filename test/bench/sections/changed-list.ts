import type { Bench, Version } from "../bench.ts";
import { fasterLists, takeTurns } from "../compare.ts";
import { listRequest, timeList } from "../load.ts";
import { operationsSince } from "../operations.ts";
import { medianText, number, type Result, spreadOf } from "../report.ts";
import type { Server } from "../server.ts";

const PERCENT = 100;
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

/**
 * Measures a large list after one order has changed: the rows read, and the time compared with the
 * baseline commit's time.
 */
export async function changedList(bench: Bench): Promise<Result[]> {
  return [await rowsRead(bench), await againstBaseline(bench)];
}

async function rowsRead(bench: Bench): Promise<Result> {
  const { orders } = bench;
  await using server = await bench.serve({ worker: "observed/counted-service", orders });
  const changed = await changedLists(bench, server);
  bench.say("counting the rows read after one change");
  const percents: number[] = [];
  for (let round = 0; round < bench.rounds; round += 1) {
    await operationsSince(server);
    await changed();
    percents.push(((await operationsSince(server)).rowsRead / orders) * PERCENT);
  }
  return {
    what: `${number(orders)} orders, one changed: rows read, in percent of the store`,
    service: medianText(percents, "%"),
    peer: "",
    ratio: spreadOf(percents),
    target: { atMost: 3 },
  };
}

async function againstBaseline(bench: Bench): Promise<Result> {
  const { orders } = bench;
  const serve = (version: Version) => bench.serve({ version, orders });
  await using today = await serve("today");
  await using baseline = await serve("baseline");
  bench.say(`a list of ${orders} with one order changed before it`);
  const { service, peer } = await takeTurns(bench.rounds, {
    service: await changedLists(bench, today),
    peer: await changedLists(bench, baseline),
  });
  const what = `${number(orders)} orders, one changed: speed, as a multiple of the baseline's`;
  return fasterLists(what, { service, peer }, 0.9);
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
