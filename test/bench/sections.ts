import { readFile } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { type Checkout, say, type Served } from "./checkout.ts";
import {
  listRequest,
  type ListTimes,
  openUnreadList,
  type Request,
  requestRate,
  send,
  sendEvery,
  timeList,
} from "./load.ts";
import { medianOf, number, ratiosOf, type Row, takeTurns } from "./report.ts";

export interface Bench {
  readonly rounds: number;
  /** The number of orders of the largest store. */
  readonly orders: number;
  readonly today: Checkout;
  readonly baseline: Checkout | null;
}

const REQUESTS = 5_000;
/** Each server starts this often, because equal processes differ in speed by a few percent. */
const STARTS = 3;
/** The duration of a round trip between continents, in milliseconds. */
const FAR_MS = 150;
/** Not slower than the baseline, allowing for noise. */
const NO_SLOWER = { atLeast: 0.97 };
const MEBIBYTE = 2 ** 20;
/** A prime, so that successive choices of an order spread over the list. */
const STRIDE = 7_919;

interface Side {
  readonly start: () => Promise<Served>;
  readonly prepare: (server: Served) => Promise<Request>;
  readonly status: number;
  readonly connections?: number;
}

/** Admitted, refused and banned requests: against bare Workers, and against the baseline. */
export async function requests({ rounds, today, baseline }: Bench): Promise<Row[]> {
  const endless = { BAN_MIN_STRIKES: "1000000", BAN_MAX_STRIKES: "1000000" };
  const kinds = [
    ["Admitted, list of ten", "unlimited", {}, 200, "bare-request", 0.85],
    ["Refused", "scarce", endless, 429, "bare-object-call", 0.8],
    ["Banned", "banned", { BAN_FIRST_SECONDS: "86400" }, 429, "hello", 0.7],
  ] as const;
  const rows: Row[] = [];
  for (const [what, name, vars, status, peer, atLeast] of kinds) {
    const of = (checkout: Checkout): Side => ({
      start: () => checkout.serve({ vars }),
      prepare: async (server) => {
        const request = listRequest(server, server.keys[name]);
        if (name === "banned") await provokeBan(request);
        else await send(request);
        return request;
      },
      status,
    });
    const bare: Side = {
      start: () => today.serve({ worker: peer }),
      prepare: async ({ url }) => ({ url: `${url}/` }),
      status: 200,
    };
    rows.push(await compareRates(`${what}: rate to ${peer}'s`, of(today), bare, atLeast, rounds));
    if (baseline !== null) {
      const against = `${what}: rate to the baseline's`;
      rows.push(await compareRates(against, of(today), of(baseline), NO_SLOWER.atLeast, rounds));
    }
  }
  return rows;
}

/** One busy key on 256 connections. */
export async function hotKey(bench: Bench): Promise<Row[]> {
  const { rounds, today, baseline } = bench;
  const of = (checkout: Checkout): Side => ({
    start: () => checkout.serve(),
    prepare: async (server) => listRequest(server, server.keys.unlimited),
    status: 200,
    connections: 256,
  });
  const peer = of(requireBaseline(baseline));
  const what = "One key, 256 connections: rate to the baseline's";
  return [await compareRates(what, of(today), peer, NO_SLOWER.atLeast, rounds)];
}

/** The largest list: cold, unchanged and changed, and its bytes against what was imported. */
export async function largeList({ rounds, orders, today, baseline }: Bench): Promise<Row[]> {
  const checkouts = [today, ...(baseline === null ? [] : [baseline])];
  await using stack = new AsyncDisposableStack();
  const contestants: Record<string, () => Promise<ListTimes>> = {};
  const wrong: string[] = [];
  for (const checkout of checkouts) {
    const server = stack.use(await checkout.serve({ orders }));
    const list = () => timeList(server, server.keys.unlimited);
    const lines = await readFile(checkout.orderFile(orders), "utf8");
    const expected = Buffer.from(`[${lines.trimEnd().replaceAll("\n", ",")}]`);
    const bytes = await send(listRequest(server, server.keys.unlimited), 200);
    if (!bytes.equals(expected)) wrong.push(checkout.name);
    let changes = 0;
    contestants[`cold ${checkout.name}`] = () => timeColdList(checkout, orders, 0);
    contestants[`unchanged ${checkout.name}`] = list;
    contestants[`one changed ${checkout.name}`] = async () => {
      // The orders 2, 102, 202 and so on have the field that the change sets.
      const choice = (changes++ * STRIDE) % Math.floor(orders / 200);
      await server.changeOrderList(choice * 100 + 2);
      const times = await list();
      await server.process.idle();
      return times;
    };
  }
  if (wrong.length > 0) throw new Error(`Not the bytes that were imported: ${wrong.join()}.`);
  const times = await takeTurns(rounds, contestants);
  return ["cold", "unchanged", "one changed"].map((state) =>
    listRow(`${number(orders)} orders, ${state}`, times, state, baseline),
  );
}

/** Cold lists while each query of orders takes 150 ms longer. */
export async function farList({ rounds, orders, today, baseline }: Bench): Promise<Row[]> {
  const contestants: Record<string, () => Promise<ListTimes>> = {};
  for (const checkout of [today, ...(baseline === null ? [] : [baseline])]) {
    contestants[`far ${checkout.name}`] = () => timeColdList(checkout, orders, FAR_MS);
  }
  const times = await takeTurns(rounds, contestants);
  return [listRow(`${number(orders)} orders, ${FAR_MS} ms away, cold`, times, "far", baseline)];
}

/** Complete lists a second for eight readers while ten orders a second are cancelled. */
export async function busyList({ rounds, orders, today, baseline }: Bench): Promise<Row[]> {
  const few = orders / 10;
  await using stack = new AsyncDisposableStack();
  const contestants: Record<string, () => Promise<number>> = {};
  for (const checkout of [today, requireBaseline(baseline)]) {
    const server = stack.use(await checkout.serve({ orders: few }));
    const cancellable = Math.floor(few / 2) - 1;
    let cancelled = 0;
    contestants[checkout.name] = async () => {
      const endMs = performance.now() + 8_000;
      const isOver = () => performance.now() > endMs;
      let complete = 0;
      const read = async () => {
        while (!isOver()) {
          await timeList(server, server.keys.other);
          complete += 1;
        }
      };
      const list = listRequest(server, server.keys.unlimited);
      const cancellation = (): Request => {
        const id = ((cancelled++ * STRIDE) % cancellable) + 1;
        return { ...list, url: `${list.url}/${id}`, method: "DELETE" };
      };
      await Promise.all([
        ...Array.from({ length: 8 }, read),
        sendEvery(100, 204, cancellation, isOver),
      ]);
      await server.process.idle();
      return complete / 8;
    };
  }
  const rates = await takeTurns(rounds, contestants);
  return [
    {
      what: `${number(few)} orders, ten cancelled a second, 8 readers: rate of lists to the baseline's`,
      service: `${number(medianOf(rates["today"]))} /s`,
      peer: `${number(medianOf(rates["baseline"]))} /s`,
      ratio: ratiosOf(rates["today"], rates["baseline"]),
      target: NO_SLOWER,
    },
  ];
}

/** The peak memory of the Worker's process: one list, and 40 lists that nobody reads. */
export async function memory({ rounds, orders, today, baseline }: Bench): Promise<Row[]> {
  const unread = (keysOf: (server: Served, index: number) => string) => async (server: Served) => {
    const sockets = [];
    for (let index = 0; index < 40; index += 1) {
      sockets.push(await openUnreadList(server, keysOf(server, index)));
    }
    await wait(1_000);
    for (const socket of sockets) socket.destroy();
  };
  const loads: Record<string, (server: Served) => Promise<unknown>> = {
    "one list": (server) => timeList(server, server.keys.unlimited),
    "40 unread lists of one key": unread(({ keys }) => keys.unlimited),
    "40 unread lists of two keys": unread(({ keys }, index) =>
      index % 2 === 0 ? keys.unlimited : keys.other,
    ),
  };
  const rows: Row[] = [];
  for (const [what, load] of Object.entries(loads)) {
    const peak = (checkout: Checkout) => async () => {
      await using server = await checkout.serve({ orders });
      await load(server);
      const bytes = server.process.peakBytes();
      // Miniflare crashes if its process is stopped while the service fills its memory.
      await server.process.idle();
      return bytes / MEBIBYTE;
    };
    say(`memory, ${what}, in a new process each`);
    const peaks = await takeTurns(rounds, {
      today: peak(today),
      baseline: peak(requireBaseline(baseline)),
    });
    rows.push({
      what: `${number(orders)} orders, ${what}: peak memory to the baseline's`,
      service: `${number(medianOf(peaks.today))} MiB`,
      peer: `${number(medianOf(peaks.baseline))} MiB`,
      ratio: ratiosOf(peaks.today, peaks.baseline),
      target: { atMost: 1.05 },
    });
  }
  return rows;
}

function requireBaseline(baseline: Checkout | null): Checkout {
  if (baseline === null) throw new Error("This section needs --baseline DIR.");
  return baseline;
}

function listRow(
  what: string,
  times: Readonly<Record<string, readonly ListTimes[]>>,
  state: string,
  baseline: Checkout | null,
): Row {
  const figures = (name: string, figure: keyof ListTimes) =>
    (times[`${state} ${name}`] ?? []).map((one) => one[figure]);
  const text = (name: string) =>
    `${number(medianOf(figures(name, "totalMs")))} ms, first byte ${number(medianOf(figures(name, "firstByteMs")))} ms`;
  if (baseline === null) return { what, service: text("today"), peer: "", ratio: null };
  return {
    what: `${what}: speed to the baseline's`,
    service: text("today"),
    peer: text("baseline"),
    ratio: ratiosOf(figures("baseline", "totalMs"), figures("today", "totalMs")),
    processorRatio: ratiosOf(figures("baseline", "processorMs"), figures("today", "processorMs")),
    target: NO_SLOWER,
  };
}

/** Times the list as the first list of a new process, after a request that loads all the rest. */
async function timeColdList(
  checkout: Checkout,
  orders: number,
  delayMs: number,
): Promise<ListTimes> {
  await using server = await checkout.serve({ worker: "delayed-service", orders });
  const list = listRequest(server, server.keys.unlimited);
  await send({ ...list, url: `${list.url}/0`, method: "DELETE" }, 404);
  await fetch(`${server.url}/delay`, { method: "PUT", body: String(delayMs) });
  const times = await timeList(server, server.keys.unlimited);
  await server.process.idle();
  return times;
}

async function provokeBan(request: Request): Promise<void> {
  for (const deadline = Date.now() + 30_000; Date.now() < deadline;) {
    if ((await send(request)).includes("api_key_banned")) return;
    await wait(10);
  }
  throw new Error("The key was not banned.");
}

async function compareRates(
  what: string,
  service: Side,
  peer: Side,
  atLeast: number,
  rounds: number,
): Promise<Row> {
  const rates = { service: [] as number[], peer: [] as number[] };
  const processorMs = { service: [] as number[], peer: [] as number[] };
  for (let start = 1; start <= STARTS; start += 1) {
    say(`${what} (start ${start} of ${STARTS})`);
    await using serviceServer = await service.start();
    await using peerServer = await peer.start();
    const measure = async (server: Served, { prepare, status, connections = 32 }: Side) => {
      const request = await prepare(server);
      return async () => {
        const spentBefore = server.process.processorMs();
        const perSecond = await requestRate(request, REQUESTS, connections, status);
        return { perSecond, spentMs: (server.process.processorMs() - spentBefore) / REQUESTS };
      };
    };
    const turns = await takeTurns(rounds, {
      service: await measure(serviceServer, service),
      peer: await measure(peerServer, peer),
    });
    for (const side of ["service", "peer"] as const) {
      rates[side].push(...turns[side].map(({ perSecond }) => perSecond));
      processorMs[side].push(...turns[side].map(({ spentMs }) => spentMs));
    }
  }
  const text = (side: keyof typeof rates) =>
    `${number(medianOf(rates[side]))} /s, ${number(medianOf(processorMs[side]))} ms each`;
  return {
    what,
    service: text("service"),
    peer: text("peer"),
    ratio: ratiosOf(rates.service, rates.peer),
    processorRatio: ratiosOf(processorMs.peer, processorMs.service),
    target: { atLeast },
  };
}
