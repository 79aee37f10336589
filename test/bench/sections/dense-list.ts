import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { type Bench, listRequest } from "../bench.ts";
import type { Bundle } from "../bundle.ts";
import { executeSql } from "../miniflare.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore } from "../store.ts";
import { timeList } from "../timed-list.ts";

/** One in this many orders is not cancelled. */
const LIVE_ONE_IN = 1_000;

/** A store with mostly cancelled orders. The baseline keeps them in the table of orders. */
export async function denseList(bench: Bench): Promise<Result[]> {
  const baseline = await bench.baseline();
  if (baseline === null) return [];
  const rows = 2 * bench.orders;
  const store = await baseline.store(rows);
  bench.say(`cancelling all but ${rows / LIVE_ONE_IN} of ${rows} orders`);
  await executeSql(store.folder, [
    `UPDATE orders SET status = 'cancelled', cancelled_at = 1 WHERE id % ${LIVE_ONE_IN} <> 2`,
  ]);
  bench.say("migrating a copy of that store");
  const migrated = await copyStore(store, "migrated");
  await (await openLocalDatabase(migrated)).close();

  await using today = await start(await bench.service(), migrated);
  await using old = await start(await baseline.service(), store.folder);
  const measure = async (server: Server) => {
    await server.changeOrderList();
    const times = await timeList(server, listRequest(server.url, store.key));
    await server.process.idle();
    return times.totalMs;
  };
  bench.say("a list of the orders that are left, one changed before it");
  const figures = await takeTurns(bench.rounds, {
    today: () => measure(today),
    old: () => measure(old),
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
