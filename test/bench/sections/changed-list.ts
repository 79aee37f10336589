import { type Bench, listRequest } from "../bench.ts";
import { timeAnswer } from "../http.ts";
import { operationsSince } from "../operations.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore } from "../store.ts";
import { type ListTimes, timeColdList, timeList } from "../timed-list.ts";

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
 * Measures a large list after one order has changed: the rows read, and the time compared with a
 * cold list. A cold list is the first list of a new process with an empty cache. Also compares the
 * time of a cold list with the baseline commit's time.
 */
export async function changedList(bench: Bench): Promise<Result[]> {
  const results = [await rowsRead(bench), await changedAgainstCold(bench)];
  results.push(...(await coldAgainstBaseline(bench)));
  return results;
}

async function rowsRead(bench: Bench): Promise<Result> {
  const store = await bench.store(bench.orders);
  await using server = await Server.startWithoutCache(
    await bench.worker("observed/counted-service"),
    { store: await copyStore(store, "counted-changes"), hasObjects: true },
  );
  const list = listRequest(server.url, store.key);
  bench.say("counting the rows read after one change");
  await timeAnswer(list);
  await server.process.idle();
  const percents: number[] = [];
  for (let round = 0; round < bench.rounds; round += 1) {
    await server.changeOrderList(idToChange(round, bench.orders));
    await operationsSince(server);
    await timeAnswer(list);
    await server.process.idle();
    percents.push(((await operationsSince(server)).rowsRead / bench.orders) * PERCENT);
  }
  return {
    what: `${number(bench.orders)} orders, one changed: rows read, in percent of the store`,
    service: medianText(percents, "%"),
    peer: "",
    ratio: spreadOf(percents),
    target: { atMost: 3 },
  };
}

async function changedAgainstCold(bench: Bench): Promise<Result> {
  const store = await bench.store(bench.orders);
  const bundle = await bench.service();
  const coldStore = { folder: await copyStore(store, "cold-changes"), key: store.key };
  await using server = await Server.startWithoutCache(bundle, {
    store: await copyStore(store, "changes"),
    hasObjects: true,
  });
  const list = listRequest(server.url, store.key);
  let changes = 0;
  bench.say(`a list of ${bench.orders}, cold and with one order changed before it`);
  const figures = await takeTurns(bench.rounds, {
    cold: () => timeColdList(bundle, coldStore),
    changed: async () => {
      await server.changeOrderList(idToChange(changes++, bench.orders));
      const times = await timeList(server, list);
      await server.process.idle();
      return times;
    },
  });
  return {
    what: `${number(bench.orders)} orders, one changed: times faster than cold`,
    service: medianText(totals(figures.changed), "ms"),
    peer: medianText(totals(figures.cold), "ms"),
    ratio: spreadOf(ratios(totals(figures.cold), totals(figures.changed))),
    processorRatio: spreadOf(ratios(processor(figures.cold), processor(figures.changed))),
    target: { atLeast: 5 },
  };
}

/**
 * Compares the time of a cold list with the baseline commit's time. The baseline commit takes two
 * turns in each round, one before and one after the service. The mean of both turns compensates for
 * a machine that slows down, and the ratio of both turns is the noise of the measurement.
 */
async function coldAgainstBaseline(bench: Bench): Promise<Result[]> {
  const baseline = await bench.baseline();
  if (baseline === null) return [];
  const [store, oldStore] = [await bench.store(bench.orders), await baseline.store(bench.orders)];
  const [bundle, oldBundle] = [await bench.service(), await baseline.service()];
  const coldStore = { folder: await copyStore(store, "cold-today"), key: store.key };
  bench.say(`a cold list of ${bench.orders} against ${baseline.name}`);
  const figures = await takeTurns(bench.rounds, {
    old: () => timeColdList(oldBundle, oldStore),
    today: () => timeColdList(bundle, coldStore),
    oldAgain: () => timeColdList(oldBundle, oldStore),
  });
  const { old, today, oldAgain } = figures;
  const line = (
    what: string,
    peer: readonly ListTimes[],
    service: readonly ListTimes[],
    target: Result["target"],
  ): Result => ({
    what: `${number(bench.orders)} orders, cold: ${what}`,
    service: medianText(totals(service), "ms"),
    peer: medianText(totals(peer), "ms"),
    ratio: spreadOf(ratios(totals(peer), totals(service))),
    processorRatio: spreadOf(ratios(processor(peer), processor(service))),
    target,
  });
  const bothOld = old.map((times, round) => meanOf(times, oldAgain[round] ?? times));
  return [
    line(`speed of ${baseline.name}`, bothOld, today, { atLeast: 1 }),
    line(`${baseline.name} against itself, the noise`, old, oldAgain, null),
  ];
}

function meanOf(one: ListTimes, other: ListTimes): ListTimes {
  const mean = (name: keyof ListTimes) => (one[name] + other[name]) / 2;
  return {
    firstByteMs: mean("firstByteMs"),
    totalMs: mean("totalMs"),
    processorMs: mean("processorMs"),
  };
}

function totals(times: readonly ListTimes[]): number[] {
  return times.map(({ totalMs }) => totalMs);
}

function processor(times: readonly ListTimes[]): number[] {
  return times.map(({ processorMs }) => processorMs);
}

function idToChange(turn: number, orders: number): number {
  const choices = Math.floor(orders / 2 / ORDERS_BETWEEN_CHANGES);
  return ((turn * STRIDE) % choices) * ORDERS_BETWEEN_CHANGES + 2;
}
