import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { Pool, request } from "undici";
import { openList } from "../support/open-list.ts";
import { say, type Served, type ServeOptions } from "./checkout.ts";

const REQUESTS = 5_000;
/** The duration of a round trip between continents, in milliseconds. */
const FAR_MS = 150;
/** A prime, so that successive choices of an order spread over the list. */
const STRIDE = 7_919;
/** Matches the end of a list that is whole. */
const WHOLE = /\]$/;

/** One thing to measure. A smaller figure is better. */
export interface Measurement {
  readonly what: string;
  /** What is measured: the time of `run` (default), or the peak memory after it. */
  readonly unit?: "ms" | "MiB";
  readonly serve: ServeOptions;
  /** Whether each round has a new process. */
  readonly isCold?: boolean;
  /** How often each server starts, because equal processes differ in speed by a few percent. */
  readonly starts?: number;
  readonly prepare?: (server: Served) => Promise<unknown>;
  /** Returns the number by which its time is divided, if it is not 1. */
  readonly run: (server: Served) => Promise<number | void>;
}

/** Sends a request with the first key, on a connection of its own or of `pool`. Returns the end of the answer. */
async function ask({ url, keys }: Served, pool?: Pool, path = "", method = "GET"): Promise<string> {
  const headers = { Authorization: `Bearer ${keys[0]}` };
  const connection = pool ? { dispatcher: pool } : { reset: true };
  const options = { method: method as "GET", headers, ...connection };
  const { body } = await request(`${url}/v1/store/orders${path}`, options);
  let end = "";
  for await (const piece of body) end = String(piece);
  return end;
}

/**
 * Requests the list `count` times over new connections, because Workers close idle ones. Says how many
 * answers do not end so, also by the exit status.
 */
function lists(count: number, connections = count, end = WHOLE): Measurement["run"] {
  return async (server) => {
    const pool = new Pool(server.url, { connections });
    let [left, wrong] = [count, 0];
    const client = async () => {
      while (left-- > 0) wrong += Number(!end.test(await ask(server, pool).catch(String)));
    };
    await Promise.all(Array.from({ length: connections }, client));
    await pool.destroy();
    if (wrong > 0) say(`${wrong} of ${count} answers were not as expected`);
    if (wrong > 0) process.exitCode = 1;
    return count;
  };
}

/** Opens lists with the keys in turn, reads only the beginnings, and closes them after a second. */
function unreadLists(count: number): Measurement["run"] {
  return async (server) => {
    const open = (_: unknown, n: number) => openList(server, server.keys[n % server.keys.length]!);
    const sockets = Array.from({ length: count }, open);
    await Promise.all(sockets.map((socket) => once(socket, "readable")));
    await wait(1_000);
    for (const socket of sockets) socket.destroy();
  };
}

let cancelled = 0;

/** Cancels an order that was not cancelled before, as long as there is one. */
const cancel = (server: Served) =>
  ask(server, undefined, `/${(cancelled++ * STRIDE) % server.orders}`, "DELETE");

/** Lists while ten orders a second are cancelled. */
const busyLists: Measurement["run"] = async (server) => {
  const cancelling = setInterval(() => void cancel(server), 100);
  return lists(250, 8)(server).finally(() => clearInterval(cancelling));
};

const requests = (what: string, connections: number, serve: ServeOptions = {}, end = WHOLE) => ({
  what: `${what}, ${connections} connections`,
  serve,
  starts: 3,
  async prepare(server: Served) {
    while (!end.test(await ask(server))) await wait(10);
  },
  run: lists(REQUESTS, connections, end),
});

const list = (what: string, orders: number, changes: Partial<Measurement> = {}) => ({
  what: `${what} list of ${orders} orders`,
  serve: { orders },
  run: lists(1),
  ...changes,
});

/** The first list of a new process, after a request that loads all the rest. */
function coldList(what: string, orders: number, vars: Record<string, string> = {}) {
  const prepare = (server: Served) => ask(server, undefined, "/-1", "DELETE");
  return list(what, orders, { isCold: true, serve: { orders, vars }, prepare });
}

/** Several lists at once. */
function burst(orders: number, count: number, isCold: boolean) {
  const what = `One of ${count} ${isCold ? "cold " : ""}lists of ${orders} orders at once`;
  const prepare = async (server: Served) => isCold || ask(server);
  return { what, serve: { orders }, isCold, prepare, run: lists(count) };
}

function memory(orders: number, what: string, keys: number, run: Measurement["run"]) {
  const whole = `Peak memory, ${orders} orders, ${what}, keys: ${keys}`;
  return { what: whole, unit: "MiB", isCold: true, serve: { orders, keys }, run } as const;
}

const NO_BANS = { limit: 1, vars: { BAN_MODE: "off" } };
const BAN_FOR_LONG = { limit: 1, vars: { BAN_FIRST_SECONDS: "86400", BAN_GRACE_SECONDS: "0" } };

/** @param orders the number of orders in the largest store. */
export const sectionsOf = (orders: number) => ({
  requests: [
    requests("Admitted", 32),
    requests("Refused", 32, NO_BANS, /rate_limit_exceeded/),
    requests("Banned", 32, BAN_FOR_LONG, /api_key_banned/),
  ],
  "hot-key": [requests("Admitted", 256)],
  "large-list": [
    coldList("Cold", orders),
    list("Unchanged", orders),
    list("Changed", orders, { prepare: cancel }),
  ],
  "far-list": [coldList(`Cold, ${FAR_MS} ms away,`, orders, { DELAY_MS: String(FAR_MS) })],
  bursts: [
    list("Unchanged", 7_000),
    burst(7_000, 60, false),
    burst(Math.ceil(orders * 0.3), 40, true),
    burst(Math.ceil(orders * 0.3), 300, false),
  ],
  "busy-list": [
    list("Busy (8 readers, 10/s cancelled)", Math.ceil(orders / 10), { run: busyLists }),
  ],
  memory: [
    memory(orders, "one list", 1, lists(1)),
    memory(orders, "40 unread lists", 1, unreadLists(40)),
    memory(orders, "40 unread lists", 20, unreadLists(40)),
    memory(orders, "200 unread lists", 50, unreadLists(200)),
  ],
});
