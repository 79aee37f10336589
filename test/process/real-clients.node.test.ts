import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import ky from "ky";
import { Agent, type Dispatcher, request, RetryAgent } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Server as WorkerServer } from "../bench/server.ts";
import { createKeys } from "./create-keys.ts";
import { advanceClock, CLOCKED_SERVICE, ServedStore } from "./worker-server.ts";

const LIST = "/v1/store/orders";
/** The remaining seconds of each key's minute window when the clients send their requests. */
const LEFT_SECONDS = 6;

const NAMES = ["curl", "ky", "undici", "hastyUndici"] as const;
type ClientName = (typeof NAMES)[number];

/** A request of a client and the response. Times are in milliseconds of `performance.now()`. */
interface Exchange {
  readonly authorization: string;
  readonly status: number;
  readonly isBan: boolean;
  /** 0 if the response has no `Retry-After`. */
  readonly retryAfterSeconds: number;
  readonly arrivedMs: number;
  readonly answeredMs: number;
}

const store = new ServedStore();
const agent = new RetryAgent(new Agent());
const hastyAgent = new RetryAgent(new Agent(), { maxTimeout: 2_000 });
const exchanges: Exchange[] = [];

let keys: Record<ClientName, string>;
let service: WorkerServer;
let proxy: Server;
let url: string;
let ended: { [Name in ClientName]: ReturnType<(typeof clients)[Name]> };

const clients = {
  curl: () => {
    const header = `Authorization: ${bearer("curl").Authorization}`;
    return promisify(execFile)("curl", ["-sS", "--fail", "--retry", "3", "-H", header, url + LIST]);
  },
  ky: () => ky.get(url + LIST, { headers: bearer("ky") }).json(),
  undici: () => listWithUndici("undici", agent),
  hastyUndici: () => listWithUndici("hastyUndici", hastyAgent),
};

// All clients run at the same time, so that the test waits only once for the end of the windows.
beforeAll(async () => {
  const limits = { perMinute: 2, perDay: 100_000 };
  keys = await createKeys(store.path, Object.fromEntries(NAMES.map((name) => [name, limits])));
  service = await store.serve(CLOCKED_SERVICE);
  proxy = recordingProxy(service.url).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;

  const startMs = performance.now();
  await Promise.all(NAMES.map((name) => spend(name, name === "hastyUndici" ? 3 : 2)));
  const elapsedSeconds = (performance.now() - startMs) / 1_000;
  await advanceClock(service, 60 - LEFT_SECONDS - elapsedSeconds);
  const started = Object.entries(clients).map(([name, start]) => [name, start()] as const);
  ended = Object.fromEntries(started) as typeof ended;
  await Promise.allSettled(Object.values(ended));
});

afterAll(async () => {
  await Promise.all([agent.close(), hastyAgent.close()]);
  proxy.close().closeAllConnections();
});

function recordingProxy(origin: string): Server {
  const forward = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const arrivedMs = performance.now();
    const { method = "GET" } = incoming;
    const { authorization = "" } = incoming.headers;
    const target = `${origin}${incoming.url}`;
    const own = { Authorization: authorization, "Accept-Encoding": "identity" };
    const response = await fetch(target, { method, headers: own });
    const body = await response.text();
    exchanges.push({
      authorization,
      status: response.status,
      isBan: body.includes('"api_key_banned"'),
      retryAfterSeconds: Number(response.headers.get("Retry-After")),
      arrivedMs,
      answeredMs: performance.now(),
    });
    outgoing.setHeaders(response.headers);
    outgoing.writeHead(response.status).end(body);
  };
  return createServer((incoming, outgoing) => void forward(incoming, outgoing));
}

function bearer(name: ClientName): { readonly Authorization: string } {
  return { Authorization: `Bearer ${keys[name]}` };
}

function exchangesOf(name: ClientName): Exchange[] {
  const { Authorization } = bearer(name);
  return exchanges.filter(({ authorization }) => authorization === Authorization);
}

/** Sends requests one after the other and ignores `Retry-After`. */
async function spend(name: ClientName, requests: number): Promise<void> {
  for (let count = 0; count < requests; count += 1) {
    const response = await fetch(url + LIST, { headers: bearer(name) });
    await response.arrayBuffer();
  }
}

async function listWithUndici(name: ClientName, dispatcher: Dispatcher): Promise<number> {
  const { statusCode, body } = await request(url + LIST, { dispatcher, headers: bearer(name) });
  await text(body);
  return statusCode;
}

test.each(NAMES.slice(0, 3))("%s waits for Retry-After", async (name) => {
  await ended[name];
  const own = exchangesOf(name);
  expect(own.map(({ status }) => status)).toEqual([200, 200, 429, 200]);
  const [, , refused, admitted] = own;
  const waitedMs = admitted!.arrivedMs - refused!.answeredMs;
  expect(waitedMs).toBeGreaterThanOrEqual(refused!.retryAfterSeconds * 1_000 - 5);
});

test("undici's RetryAgent retries early after a Retry-After beyond its maxTimeout", async () => {
  expect(await ended.hastyUndici).toBe(200);
  const statuses = exchangesOf("hastyUndici").map(({ status }) => status);
  expect(statuses.slice(0, 5)).toEqual([200, 200, 429, 429, 429]);
  expect(statuses.length).toBeLessThanOrEqual(8);
  expect(statuses.at(-1)).toBe(200);
});

test("none of these clients is banned", () => {
  expect(exchanges.filter(({ isBan }) => isBan)).toEqual([]);
});
