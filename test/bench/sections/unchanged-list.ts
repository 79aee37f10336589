import { type Bench, listRequest } from "../bench.ts";
import { compareRates } from "../compare-rates.ts";
import { answerHeaders, type Request, timeAnswer } from "../http.ts";
import { operationsSince } from "../operations.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";

/** A list from the cache takes some 10 ms, on which a pause of the machine weighs: more turns than elsewhere. */
const CACHED_TURNS_PER_ROUND = 5;

/** A list that has not changed: rows read, the cache against the scan, and 304. */
export async function unchangedList(bench: Bench): Promise<Result[]> {
  const results: Result[] = [];
  for (const orders of [10, bench.orders / 10, bench.orders]) {
    results.push(...(await rowsRead(bench, orders)));
  }
  results.push(await cached(bench), await notModified(bench));
  return results;
}

async function rowsRead(bench: Bench, orders: number): Promise<Result[]> {
  const store = await bench.store(orders);
  await using server = await Server.start(await bench.worker("observed/counted-service"), {
    store: store.folder,
    hasObjects: true,
  });
  const list = listRequest(server.url, store.key);
  bench.say(`rows read for an unchanged list of ${orders}`);
  await timeAnswer(list);
  await server.process.idle();
  const { headers } = await answerHeaders(list);
  const conditional = listRequest(server.url, store.key, { "If-None-Match": headers.etag ?? "" });
  const line = (what: string, rows: number): Result => ({
    what: `${number(orders)} orders, unchanged, ${what}: rows read`,
    service: `${rows} rows`,
    peer: "",
    ratio: spreadOf([rows]),
    target: { atMost: 3 },
  });
  return [
    line("200", await rowsReadFor(server, list)),
    line("304", await rowsReadFor(server, conditional)),
  ];
}

async function rowsReadFor(server: Server, request: Request): Promise<number> {
  await operationsSince(server);
  await answerHeaders(request);
  await server.process.idle();
  return (await operationsSince(server)).rowsRead;
}

async function cached(bench: Bench): Promise<Result> {
  const orders = bench.orders / 10;
  const store = await bench.store(orders);
  await using server = await Server.start(await bench.service(), {
    store: store.folder,
    hasObjects: true,
  });
  const list = listRequest(server.url, store.key);
  bench.say(`an unchanged list of ${orders}, from the cache and scanned`);
  const figures = await takeTurns(CACHED_TURNS_PER_ROUND * bench.rounds, {
    scanned: async () => {
      await server.changeOrderList();
      const { totalMs } = await timeAnswer(list);
      await server.process.idle();
      return totalMs;
    },
    cached: async () => (await timeAnswer(list)).totalMs,
  });
  return {
    what: `${number(orders)} orders, from the cache: times faster than scanned`,
    service: medianText(figures.cached, "ms"),
    peer: medianText(figures.scanned, "ms"),
    ratio: spreadOf(ratios(figures.scanned, figures.cached)),
    target: { atLeast: 5 },
  };
}

async function notModified(bench: Bench): Promise<Result> {
  const { key } = await bench.store(10);
  return compareRates(bench, {
    name: "not-modified",
    what: "304: speed of a bare Worker with one object write and one D1 select",
    atLeast: 0.85,
    peer: "bare-request",
    status: 304,
    prepare: async ({ url }) => {
      const { headers } = await answerHeaders(listRequest(url, key));
      return listRequest(url, key, { "If-None-Match": headers.etag ?? "" });
    },
  });
}
