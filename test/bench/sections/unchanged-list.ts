import { type Bench, listRequest } from "../bench.ts";
import { compareWithBareWorker } from "../bare-worker.ts";
import { answerHeaders, type Request, timeAnswer } from "../http.ts";
import { operationsSince } from "../operations.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore } from "../store.ts";
import { timeColdList } from "../timed-list.ts";

/**
 * The number of measurements per round. One would be too few: a response takes only about 10 ms, so
 * a short pause of the machine would distort the measurement.
 */
const TURNS_PER_ROUND = 3;

/**
 * Measures an unchanged list, which is a list requested again before any order changes:
 *
 * - the rows read for a 200 and for a 304,
 * - the time, compared with the first list of a new process with an empty cache,
 * - the rate of 304 responses.
 */
export async function unchangedList(bench: Bench): Promise<Result[]> {
  const results: Result[] = [];
  for (const orders of [10, bench.orders / 10, bench.orders]) {
    results.push(...(await rowsRead(bench, orders)));
  }
  results.push(await unchanged(bench), await notModified(bench));
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

async function unchanged(bench: Bench): Promise<Result> {
  const orders = bench.orders / 10;
  const store = await bench.store(orders);
  const bundle = await bench.service();
  const coldStore = { folder: await copyStore(store, "cold"), key: store.key };
  await using server = await Server.start(bundle, { store: store.folder, hasObjects: true });
  const list = listRequest(server.url, store.key);
  bench.say(`a list of ${orders}, cold and unchanged`);
  const figures = await takeTurns(TURNS_PER_ROUND * bench.rounds, {
    cold: async () => (await timeColdList(bundle, coldStore)).totalMs,
    unchanged: async () => (await timeAnswer(list)).totalMs,
  });
  return {
    what: `${number(orders)} orders, unchanged: times faster than cold`,
    service: medianText(figures.unchanged, "ms"),
    peer: medianText(figures.cold, "ms"),
    ratio: spreadOf(ratios(figures.cold, figures.unchanged)),
    target: { atLeast: 5 },
  };
}

async function notModified(bench: Bench): Promise<Result> {
  const { key } = await bench.store(10);
  return compareWithBareWorker(bench, {
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
