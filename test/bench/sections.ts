import { setTimeout as wait } from "node:timers/promises";
import { say, type Served, type ServeOptions } from "./checkout.ts";
import { leavingUnread, LIST, readList, send, sendMany } from "./load.ts";

const REQUESTS = 5_000;
/** The duration of a round trip between continents, in milliseconds. */
const FAR_MS = 150;
/** A prime, so that successive choices of an order spread over the list. */
const STRIDE = 7_919;

/** One thing to measure. A smaller figure is better. */
export interface Measurement {
  readonly what: string;
  /** What is measured: the time of `run` (default), or the peak memory after it. */
  readonly unit?: "ms" | "MiB";
  readonly serve?: ServeOptions;
  /** Whether each round has a new process. */
  readonly isCold?: boolean;
  /** How often each server starts, because equal processes differ in speed by a few percent. */
  readonly starts?: number;
  /** Runs before each measurement. */
  readonly prepare?: (server: Served, round: number) => Promise<unknown>;
  /** Returns the number by which its time is divided, if it is not 1. */
  readonly run: (server: Served) => Promise<number | void>;
}

interface RequestsOptions extends ServeOptions {
  readonly status?: number;
  readonly connections?: number;
  /** A text in the responses from when on the requests are measured. */
  readonly until?: string;
}

function requests(
  what: string,
  { status = 200, connections = 32, until = "", ...serve }: RequestsOptions = {},
): Measurement {
  return {
    what: `${what}, ${connections} connections`,
    serve,
    starts: 3,
    async prepare(server) {
      while (!(await send(server, LIST)).includes(until)) await wait(10);
    },
    async run(server) {
      await sendMany(server, REQUESTS, connections, status);
      return REQUESTS;
    },
  };
}

function list(what: string, orders: number, changes: Partial<Measurement> = {}): Measurement {
  return { what: `${what} list of ${orders} orders`, serve: { orders }, run: readList, ...changes };
}

/** The first list of a new process, after a request that loads all the rest. */
function coldList(what: string, orders: number, delayMs: number): Measurement {
  const prepare = async (server: Served) => {
    await send(server, `${LIST}/-1`, 404, { method: "DELETE" });
    await send(server, "/delay", 204, { method: "PUT", body: String(delayMs) });
  };
  return list(what, orders, { isCold: true, prepare });
}

const pathOf = (n: number, orders: number) => `${LIST}/${(n * STRIDE) % orders}`;

function changedList(orders: number): Measurement {
  const prepare = (server: Served, round: number) =>
    send(server, pathOf(round, orders), 204, { method: "DELETE" });
  return list("Changed", orders, { prepare });
}

/** The time of a complete list for eight readers while ten orders a second are cancelled. */
function busyList(orders: number): Measurement {
  let cancelled = 0;
  return {
    what: `List of ${orders} orders, 8 readers, ten cancelled a second`,
    serve: { orders },
    async run(server) {
      const endMs = performance.now() + 8_000;
      let lists = 0;
      const read = async () => {
        for (; performance.now() < endMs; lists += 1) await readList(server);
      };
      const cancel = () =>
        send(server, pathOf(cancelled++, orders), undefined, { method: "DELETE" });
      const cancelling = setInterval(() => void cancel(), 100);
      await Promise.all(Array.from({ length: 8 }, read));
      clearInterval(cancelling);
      return lists;
    },
  };
}

/** Several lists at once, each of which must be whole. */
function burst(orders: number, count: number, isCold: boolean): Measurement {
  return {
    what: `One of ${count} ${isCold ? "cold " : ""}lists of ${orders} orders at once`,
    serve: { orders },
    isCold,
    prepare: async (server) => isCold || readList(server),
    async run(server) {
      const lists = Array.from({ length: count }, () => readList(server));
      const ends = await Promise.allSettled(lists);
      const lost = ends.filter(({ status }) => status === "rejected").length;
      if (lost > 0) say(`${lost} of ${count} lists were not whole`);
      return count;
    },
  };
}

/** @param orders the number of orders in the largest store. */
export const sectionsOf = (orders: number) => ({
  requests: [
    requests("Admitted"),
    requests("Refused", { limit: 1, status: 429, vars: { BAN_MODE: "off" } }),
    requests("Banned", {
      limit: 1,
      status: 429,
      vars: { BAN_FIRST_SECONDS: "86400", BAN_GRACE_SECONDS: "0" },
      until: "api_key_banned",
    }),
  ],
  "hot-key": [requests("Admitted", { connections: 256 })],
  "large-list": [coldList("Cold", orders, 0), list("Unchanged", orders), changedList(orders)],
  "far-list": [coldList(`Cold, ${FAR_MS} ms away,`, orders, FAR_MS)],
  bursts: [
    list("Unchanged", 7_000),
    burst(7_000, 60, false),
    burst(Math.ceil(orders * 0.3), 40, true),
    burst(Math.ceil(orders * 0.3), 300, false),
  ],
  "busy-list": [busyList(Math.ceil(orders / 10))],
  memory: [
    { what: "one list", keys: 1, run: readList },
    { what: "40 unread lists", keys: 1, run: leavingUnread(40) },
    { what: "40 unread lists", keys: 20, run: leavingUnread(40) },
    { what: "200 unread lists", keys: 50, run: leavingUnread(200) },
  ].map(({ what, keys, run }): Measurement => {
    const whole = `Peak memory, ${orders} orders, ${what}, keys: ${keys}`;
    return { what: whole, unit: "MiB", isCold: true, serve: { orders, keys }, run };
  }),
});
