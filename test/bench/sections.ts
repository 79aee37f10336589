import { setTimeout as wait } from "node:timers/promises";
import { type Checkout, say, type Served } from "./checkout.ts";
import { leaveUnread, listRequest, readList, send, sendMany } from "./load.ts";

const REQUESTS = 5_000;
/** The duration of a round trip between continents, in milliseconds. */
const FAR_MS = 150;
const MEBIBYTE = 2 ** 20;
/** A prime, so that successive choices of an order spread over the list. */
const STRIDE = 7_919;

/** One thing to measure. A smaller figure is better. */
export interface Measurement {
  readonly what: string;
  readonly unit: "ms" | "MiB";
  /** The least ratio of the baseline's figure to today's. */
  readonly target: number;
  /** How often each server starts, because equal processes differ in speed by a few percent. */
  readonly starts?: number;
  /** Returns a function that measures once. `stack` disposes of the servers at the end. */
  readonly start: (checkout: Checkout, stack: AsyncDisposableStack) => Promise<Measure>;
}

const NO_SLOWER = { unit: "ms", target: 0.97 } as const;

/** A figure, and the server's processor time for it; other processes hardly affect the latter. */
export type Figures = { readonly figure: number; readonly processorMs: number };
export type Measure = () => Promise<Figures>;

async function time(server: Served, count: number, run: () => Promise<void>): Promise<Figures> {
  const spentBefore = server.process.processorMs();
  const startMs = performance.now();
  await run();
  const figure = (performance.now() - startMs) / count;
  return { figure, processorMs: (server.process.processorMs() - spentBefore) / count };
}

/** Measures a new process each time. */
function fresh(orders: number, measure: (server: Served) => Promise<Figures>, furtherKeys = 0) {
  return async (checkout: Checkout): Promise<Measure> =>
    async () => {
      await using server = await checkout.serve({ orders, furtherKeys });
      const figures = await measure(server);
      // Miniflare crashes if its process is stopped while the service fills its memory.
      await server.process.idle();
      return figures;
    };
}

function requestTime(
  what: string,
  name: "unlimited" | "scarce",
  { status = 200, connections = 32, vars = {} as Record<string, string>, until = "" },
): Measurement {
  const start: Measurement["start"] = async (checkout, stack) => {
    const server = stack.use(await checkout.serve({ vars }));
    const request = listRequest(server, server.keys[name]);
    while (!(await send(request)).includes(until)) await wait(10);
    return () => time(server, REQUESTS, () => sendMany(request, REQUESTS, connections, status));
  };
  return { what: `${what}, ${connections} connections`, ...NO_SLOWER, starts: 3, start };
}

/** The first list of a new process, after a request that loads all the rest. */
function coldList(what: string, orders: number, delayMs: number): Measurement {
  const start = fresh(orders, async (server) => {
    const list = listRequest(server, server.keys.unlimited);
    await send({ ...list, url: `${list.url}/-1`, method: "DELETE" }, 404);
    await send({ url: `${server.url}/delay`, method: "PUT", body: String(delayMs) }, 204);
    return time(server, 1, () => readList(server, server.keys.unlimited));
  });
  return { what: `${what} list of ${orders} orders`, ...NO_SLOWER, start };
}

function warmList(what: string, orders: number, isChanged: boolean): Measurement {
  const start: Measurement["start"] = async (checkout, stack) => {
    const server = stack.use(await checkout.serve({ orders }));
    const list = listRequest(server, server.keys.unlimited);
    let changes = 0;
    return async () => {
      const id = (changes++ * STRIDE) % orders;
      if (isChanged) await send({ ...list, url: `${list.url}/${id}`, method: "DELETE" }, 204);
      const figures = await time(server, 1, () => readList(server, server.keys.unlimited));
      await server.process.idle();
      return figures;
    };
  };
  return { what: `${what} list of ${orders} orders`, ...NO_SLOWER, start };
}

/** The time of a complete list for eight readers while ten orders a second are cancelled. */
function busyList(orders: number): Measurement {
  const start: Measurement["start"] = async (checkout, stack) => {
    const server = stack.use(await checkout.serve({ orders }));
    const list = listRequest(server, server.keys.unlimited);
    let cancelled = 0;
    return async () => {
      const endMs = performance.now() + 8_000;
      const isOver = () => performance.now() > endMs;
      let lists = 0;
      const read = async () => {
        for (; !isOver(); lists += 1) await readList(server, server.keys.other);
      };
      const cancel = async () => {
        while (!isOver()) {
          const id = (cancelled++ * STRIDE) % orders;
          const request = { ...list, url: `${list.url}/${id}`, method: "DELETE" as const };
          await Promise.all([wait(100), send(request)]);
        }
      };
      const { figure, processorMs } = await time(server, 1, async () => {
        await Promise.all([...Array.from({ length: 8 }, read), cancel()]);
      });
      await server.process.idle();
      return { figure: figure / lists, processorMs: processorMs / lists };
    };
  };
  return {
    what: `List of ${orders} orders, 8 readers, ten cancelled a second`,
    ...NO_SLOWER,
    start,
  };
}

/** Several lists at once, each of which must be whole. */
function burst(orders: number, count: number, isCold: boolean): Measurement {
  const readAll = (server: Served) => async () => {
    const lists = Array.from({ length: count }, () => readList(server, server.keys.unlimited));
    const ends = await Promise.allSettled(lists);
    const lost = ends.filter(({ status }) => status === "rejected").length;
    if (lost > 0) say(`${lost} of ${count} lists were not whole`);
  };
  const warm: Measurement["start"] = async (checkout, stack) => {
    const server = stack.use(await checkout.serve({ orders }));
    await readList(server, server.keys.unlimited);
    return () => time(server, count, readAll(server));
  };
  const start = isCold ? fresh(orders, (server) => time(server, count, readAll(server))) : warm;
  const what = `One of ${count} ${isCold ? "cold " : ""}lists of ${orders} orders at once`;
  return { what, unit: "ms", target: 0.97, start };
}

function peakMemory(
  what: string,
  orders: number,
  load: (server: Served) => Promise<void>,
  furtherKeys = 0,
): Measurement {
  const measure = async (server: Served) => {
    await load(server);
    return { figure: server.process.peakBytes() / MEBIBYTE, processorMs: Number.NaN };
  };
  const start = fresh(orders, measure, furtherKeys);
  return { what: `Peak memory, ${orders} orders, ${what}`, unit: "MiB", target: 0.95, start };
}

export const SECTIONS = {
  requests: () => [
    requestTime("Admitted", "unlimited", {}),
    requestTime("Refused", "scarce", { status: 429, vars: { BAN_MODE: "off" } }),
    requestTime("Banned", "scarce", {
      status: 429,
      vars: { BAN_FIRST_SECONDS: "86400", BAN_GRACE_SECONDS: "0" },
      until: "api_key_banned",
    }),
  ],
  "hot-key": () => [requestTime("Admitted", "unlimited", { connections: 256 })],
  "large-list": (orders) => [
    coldList("Cold", orders, 0),
    warmList("Unchanged", orders, false),
    warmList("Changed", orders, true),
  ],
  "far-list": (orders) => [coldList(`Cold, ${FAR_MS} ms away,`, orders, FAR_MS)],
  bursts: (orders) => [
    warmList("Unchanged", 7_000, false),
    burst(7_000, 60, false),
    burst(Math.ceil(orders * 0.3), 40, true),
    burst(Math.ceil(orders * 0.3), 300, false),
  ],
  "busy-list": (orders) => [busyList(Math.ceil(orders / 10))],
  memory: (orders) => [
    peakMemory("one list", orders, (server) => readList(server, server.keys.unlimited)),
    ...[
      { lists: 40, keys: 1 },
      { lists: 40, keys: 20 },
      { lists: 200, keys: 50 },
    ].map(({ lists, keys }) => {
      const load = (server: Served) => {
        const secrets = Array.from({ length: lists }, (_, n) => server.furtherKeys[n % keys]!);
        return leaveUnread(server, secrets);
      };
      return peakMemory(`${lists} unread lists, keys: ${keys}`, orders, load, keys);
    }),
  ],
} satisfies Record<string, (orders: number) => Measurement[]>;
