import type { Bench, Version } from "../bench.ts";
import type { Worker } from "../bundle.ts";
import { fasterLists, takeTurns } from "../compare.ts";
import { type ListTimes, listRequest, send, timeList } from "../load.ts";
import { expectedList } from "../order-file.ts";
import { number, type Result, spreadOf } from "../report.ts";

/**
 * Measures a list of a million orders. Compares its times, cold and unchanged, with the times of
 * the baseline commit, and its bytes with the imported order file.
 */
export async function largeList(bench: Bench): Promise<Result[]> {
  const { orders } = bench;
  await using today = await bench.serve({ orders });
  await using baseline = await bench.serve({ version: "baseline", orders });
  const [list, baselineList] = [today, baseline].map(({ url }) =>
    listRequest(url, bench.keys.unlimited[0]?.key ?? ""),
  ) as [ReturnType<typeof listRequest>, ReturnType<typeof listRequest>];

  bench.say("comparing the answer with what was imported");
  const expected: Buffer[] = [];
  for await (const piece of expectedList(bench.orderFile(orders))) expected.push(piece);
  const expectedBytes = Buffer.concat(expected);
  const cold = await send(list, 200);
  await today.process.idle();
  const unchanged = await send(list, 200);

  bench.say(`listing ${orders} orders, ${bench.rounds} rounds`);
  const times = await takeTurns(bench.rounds, {
    cold: () => timeColdList(bench),
    baselineCold: () => timeColdList(bench, "baseline"),
    unchanged: () => timeList(today, list),
    baselineUnchanged: () => timeList(baseline, baselineList),
  });
  const text = number(orders);
  return [
    fasterLists(
      `${text} orders, cold: speed, as a multiple of the baseline's`,
      { service: times.cold, peer: times.baselineCold },
      0.9,
    ),
    fasterLists(
      `${text} orders, unchanged: speed, as a multiple of the baseline's`,
      { service: times.unchanged, peer: times.baselineUnchanged },
      0.9,
    ),
    {
      what: `${text} orders, cold and unchanged: share of lists with the bytes that were imported`,
      service: `${number(cold.body.length)} bytes`,
      peer: "",
      ratio: spreadOf([cold, unchanged].map(({ body }) => (body.equals(expectedBytes) ? 1 : 0))),
      target: { atLeast: 1 },
    },
  ];
}

/**
 * Measures the largest list as the first list of a new process, with empty memory and an empty
 * cache. An earlier cancellation has already loaded the key, started the limiter's Durable Object
 * and opened the database.
 */
export async function timeColdList(
  bench: Bench,
  version: Version = "today",
  worker: Worker = "service",
): Promise<ListTimes> {
  await using server = await bench.serve({ worker, version, orders: bench.orders });
  const list = listRequest(server.url, bench.keys.unlimited[0]?.key ?? "");
  await send({ ...list, url: `${list.url}/-1`, method: "DELETE" }, 404);
  const times = await timeList(server, list);
  // Miniflare crashes if its process is stopped while the service fills the cache.
  await server.process.idle();
  return times;
}
