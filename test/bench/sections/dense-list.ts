import { type Bench, listRequest } from "../bench.ts";
import type { Bundle } from "../bundle.ts";
import { executeSql } from "../miniflare.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";
import type { Store } from "../store.ts";
import { timeList } from "../timed-list.ts";

/** One in this many orders of the store is left; all others are cancelled. */
const LIVE_ONE_IN = 1_000;

/**
 * Compares the time of a list with the baseline commit's time, in a store where most orders are
 * cancelled. The service moves cancelled orders to another table, but the baseline commit keeps
 * them in `orders`.
 */
export async function denseList(bench: Bench): Promise<Result[]> {
  const baseline = await bench.baseline();
  if (baseline === null) return [];
  const rows = 2 * bench.orders;
  const [todaysStore, oldStore] = [await bench.store(rows), await baseline.store(rows)];
  bench.say(`cancelling all but ${rows / LIVE_ONE_IN} of ${rows} orders`);
  for (const { folder } of [todaysStore, oldStore]) {
    await executeSql(folder, "orders", [
      `UPDATE orders SET status = 'cancelled', cancelled_at = 1 WHERE id % ${LIVE_ONE_IN} <> 2`,
    ]);
  }
  await using today = await start(await bench.service(), todaysStore.folder);
  await using old = await start(await baseline.service(), oldStore.folder);
  const measure = async (server: Server, { key }: Store) => {
    await server.changeOrderList();
    const times = await timeList(server, listRequest(server.url, key));
    await server.process.idle();
    return times.totalMs;
  };
  bench.say("a list of the orders that are left, one changed before it");
  const figures = await takeTurns(bench.rounds, {
    today: () => measure(today, todaysStore),
    old: () => measure(old, oldStore),
  });
  return [
    {
      what: `${number(rows / LIVE_ONE_IN)} orders beside ${number(rows)} cancelled ones, one changed: speed of ${baseline.name}`,
      service: medianText(figures.today, "ms"),
      peer: medianText(figures.old, "ms"),
      ratio: spreadOf(ratios(figures.old, figures.today)),
      target: null,
    },
  ];
}

function start(bundle: Bundle, store: string): Promise<Server> {
  return Server.start(bundle, { store, hasObjects: true });
}
