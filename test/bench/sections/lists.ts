import type { Bench, Version } from "../bench.ts";
import { ratiosOf, takeTurns } from "../compare.ts";
import { type ListTimes, listRequest, type Request, send, sendEvery, timeList } from "../load.ts";
import type { Delays } from "../observed/delayed-service.ts";
import { expectedList } from "../order-file.ts";
import { medianText, number, type Result, spreadOf, type Table } from "../report.ts";
import type { Server } from "../server.ts";
import { FAR_MS, NEAR, setDelays } from "./distance.ts";

/** The step between successive choices of an order: a prime, so that the choices spread. */
const STRIDE = 7_919;
/** Changes update the orders 2, 102, 202 and so on, which all have the field `complete`. */
const ORDERS_BETWEEN_CHANGES = 100;
const CANCEL_EVERY_MS = 100;
/** Lists that end within this time after the start of the readers do not count. */
const WARM_UP_MS = 2_000;
const MEBIBYTE = 2 ** 20;
const FAR: Delays = { ...NEAR, orders: FAR_MS };

/** Compares the largest list's speed with the baseline, and its bytes with the imported orders. */
export async function largeList(bench: Bench): Promise<Result[]> {
  const { orders } = bench;
  await using today = await bench.serve({ orders });
  await using baseline = await bench.serve({ version: "baseline", orders });

  bench.say("comparing the answer with what was imported");
  const expectedBytes = await expectedList(bench.orderFile(orders));
  const cold = await send(listOf(bench, today), 200);
  await today.process.idle();
  const unchanged = await send(listOf(bench, today), 200);

  bench.say(`listing ${orders} orders, ${bench.rounds} rounds`);
  const unchangedList = (server: Server) => () => timeList(server, listOf(bench, server));
  const changedList = (server: Server) => {
    let changes = 0;
    return async () => {
      const choice = (changes++ * STRIDE) % Math.floor(orders / 2 / ORDERS_BETWEEN_CHANGES);
      await server.changeOrderList(choice * ORDERS_BETWEEN_CHANGES + 2);
      const times = await timeList(server, listOf(bench, server));
      await server.process.idle();
      return times;
    };
  };
  const times = await takeTurns(bench.rounds, {
    cold: () => timeColdList(bench, "today", NEAR),
    baselineCold: () => timeColdList(bench, "baseline", NEAR),
    unchanged: unchangedList(today),
    baselineUnchanged: unchangedList(baseline),
    changed: changedList(today),
    baselineChanged: changedList(baseline),
  });
  const text = `${number(orders)} orders`;
  const faster = (what: string, own: readonly ListTimes[], peer: readonly ListTimes[]): Result => {
    const ratio = (name: keyof ListTimes) => ratiosOf(figuresOf(peer, name), figuresOf(own, name));
    return {
      what: `${text}, ${what}: speed, as a multiple of the baseline's`,
      service: medianText(figuresOf(own, "totalMs"), "ms"),
      peer: medianText(figuresOf(peer, "totalMs"), "ms"),
      ratio: ratio("totalMs"),
      processorRatio: ratio("processorMs"),
      target: { atLeast: 0.9 },
    };
  };
  return [
    faster("cold", times.cold, times.baselineCold),
    faster("unchanged", times.unchanged, times.baselineUnchanged),
    faster("one changed", times.changed, times.baselineChanged),
    {
      what: `${text}, cold and unchanged: share of lists with the bytes that were imported`,
      service: `${number(cold.body.length)} bytes`,
      peer: "",
      ratio: spreadOf([cold, unchanged].map(({ body }) => (body.equals(expectedBytes) ? 1 : 0))),
      target: { atLeast: 1 },
    },
  ];
}

/** Compares with the baseline how many lists complete while ten orders a second are cancelled. */
export async function busyList(bench: Bench): Promise<Result[]> {
  const load = { orders: bench.orders / 10, readers: 8, countedMs: 8_000 };
  const serve = (version: Version) => bench.serve({ version, orders: load.orders });
  await using today = await serve("today");
  await using baseline = await serve("baseline");
  bench.say(
    `${load.readers} readers of ${load.orders} orders, ten of which are cancelled a second`,
  );
  const figures = await takeTurns(bench.rounds, {
    today: listsWhileCancelling(bench, today, load),
    baseline: listsWhileCancelling(bench, baseline, load),
  });
  const rates = (version: Version, name: keyof Counts) =>
    figures[version].map((counts) => (counts[name] / load.countedMs) * 1_000);
  const text = (version: Version) =>
    `${medianText(rates(version, "complete"), "/s")}, ${medianText(rates(version, "cutOff"), "/s cut off")}`;
  return [
    {
      what: `${number(load.orders)} orders, ten cancelled a second, ${load.readers} readers: rate of complete lists, as a multiple of the baseline's`,
      service: text("today"),
      peer: text("baseline"),
      ratio: ratiosOf(rates("today", "complete"), rates("baseline", "complete")),
      target: { atLeast: 0.9 },
    },
  ];
}

/** Measures cold lists from a near and a far database. Counts lists that cancellations cut off. */
export async function farList(bench: Bench): Promise<Table> {
  const rows: string[][] = [];
  for (const version of ["today", "baseline"] as const) {
    bench.say(`${version}: cold lists, near and ${FAR_MS} ms away`);
    const times = await takeTurns(bench.rounds, {
      near: () => timeColdList(bench, version, NEAR),
      far: () => timeColdList(bench, version, FAR),
    });
    const median = (lists: readonly ListTimes[], name: keyof ListTimes) =>
      medianText(figuresOf(lists, name), "ms");
    const text = (lists: readonly ListTimes[]) =>
      `${median(lists, "totalMs")}, first byte ${median(lists, "firstByteMs")}`;
    bench.say(`${version}: lists while orders are cancelled`);
    await using server = await serveAwake(bench, version, FAR);
    const load = { orders: bench.orders, readers: 1, countedMs: 30_000 };
    const { complete, cutOff } = await listsWhileCancelling(bench, server, load)();
    const cut = `${cutOff} of ${complete + cutOff}`;
    rows.push([version, text(times.near), text(times.far), cut]);
  }
  const columns = ["near", `${FAR_MS} ms away`].map((place) => `cold, ${place}`);
  const head = [
    `${number(bench.orders)} orders`,
    ...columns,
    "cut off, far, ten cancelled a second",
  ];
  return { head, rows };
}

/** Compares the peak memory of a long list with a short list's and with the baseline's. */
export async function memory(bench: Bench): Promise<Result[]> {
  const [few, many] = [bench.orders / 10, bench.orders];
  bench.say("memory, in a new process each");
  const peaks = await takeTurns(bench.rounds, {
    few: () => peakOf(bench, few),
    many: () => peakOf(bench, many),
    baseline: () => peakOf(bench, many, "baseline"),
  });
  const line = (what: string, peer: readonly number[], atMost: number): Result => ({
    what: `Peak memory of a list of ${number(many)} orders, as a multiple of ${what}`,
    service: medianText(peaks.many, "MiB"),
    peer: medianText(peer, "MiB"),
    ratio: ratiosOf(peaks.many, peer),
    target: { atMost },
  });
  return [
    line(`that of a list of ${number(few)}`, peaks.few, 1.5),
    line("the baseline's", peaks.baseline, 1.05),
  ];
}

async function peakOf(bench: Bench, orders: number, version: Version = "today"): Promise<number> {
  await using server = await bench.serve({ version, orders });
  await timeList(server, listOf(bench, server));
  const peak = server.process.peakBytes() / MEBIBYTE;
  // Miniflare crashes if its process is stopped while the service fills the cache.
  await server.process.idle();
  return peak;
}

function figuresOf(lists: readonly ListTimes[], name: keyof ListTimes): number[] {
  return lists.map((times) => times[name]);
}

function listOf(bench: Bench, { url }: Server): Request {
  return listRequest(url, bench.keys.unlimited[0]?.key ?? "");
}

/** Serves the largest store, and sends a first request that loads everything except the list. */
async function serveAwake(bench: Bench, version: Version, delays: Delays): Promise<Server> {
  const { orders } = bench;
  const server = await bench.serve({ worker: "observed/delayed-service", version, orders });
  const list = listOf(bench, server);
  await send({ ...list, url: `${list.url}/-1`, method: "DELETE" }, 404);
  await setDelays(server, delays);
  return server;
}

/** Measures the largest list as the first list of a new process. */
async function timeColdList(bench: Bench, version: Version, delays: Delays): Promise<ListTimes> {
  await using server = await serveAwake(bench, version, delays);
  const times = await timeList(server, listOf(bench, server));
  // Miniflare crashes if its process is stopped while the service fills the cache.
  await server.process.idle();
  return times;
}

type CancellingLoad = Readonly<Record<"orders" | "readers" | "countedMs", number>>;
type Counts = Record<"complete" | "cutOff", number>;

/** Returns a function that reads lists while ten orders a second are cancelled. */
function listsWhileCancelling(bench: Bench, server: Server, load: CancellingLoad) {
  const list = listOf(bench, server);
  const cancellable = Math.floor(load.orders / 2) - 1;
  let cancelled = 0;
  const cancellation = (): Request => {
    const id = ((cancelled++ * STRIDE) % cancellable) + 1;
    return { ...list, url: `${list.url}/${id}`, method: "DELETE" };
  };
  return async (): Promise<Counts> => {
    const startMs = performance.now();
    const isOver = () => performance.now() - startMs > WARM_UP_MS + load.countedMs;
    const counts: Counts = { complete: 0, cutOff: 0 };
    const readAgainAndAgain = async () => {
      while (!isOver()) {
        const [{ status }] = await Promise.allSettled([timeList(server, list)]);
        const end = status === "fulfilled" ? "complete" : "cutOff";
        if (!isOver() && performance.now() - startMs >= WARM_UP_MS) counts[end] += 1;
      }
    };
    await Promise.all([
      ...Array.from({ length: load.readers }, readAgainAndAgain),
      sendEvery(CANCEL_EVERY_MS, [204], cancellation, isOver),
    ]);
    await server.process.idle();
    return counts;
  };
}
