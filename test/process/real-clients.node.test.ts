import { execFile } from "node:child_process";
import { promisify } from "node:util";
import got from "got";
import ky from "ky";
import { Agent, type Dispatcher, request, RetryAgent } from "undici";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { ClockedService } from "./clocked-service.ts";
import { createKeys, type NewKey } from "./create-keys.ts";
import { orderLines } from "./order-lines.ts";
import { type Exchange, RecordingProxy } from "./recording-proxy.ts";

const run = promisify(execFile);

const LIST = "/v1/store/orders";
const ORDERS = 20;

/** Refusals become strikes this long after the first one (docs/limits.md, Bans). */
const GRACE_SECONDS = 10;
/** What is left of the minute when the clients find it used up. */
const LEFT_SECONDS = 5;

const PER_DAY = 100_000;
const PER_MINUTE = {
  curl: 2,
  ky: 2,
  got: 2,
  undici: 2,
  hastyUndici: 2,
  ours: 2,
  ourBatch: 8,
  hammer: 20,
};
type ClientName = keyof typeof PER_MINUTE;

const store = new StoreFolder();
const agent = new RetryAgent(new Agent());
const hastyAgent = new RetryAgent(new Agent(), { maxTimeout: 2_000 });

let keys: Record<ClientName, NewKey>;
let service: ClockedService;
let proxy: RecordingProxy;

beforeAll(async () => {
  const limits = Object.entries(PER_MINUTE).map(([name, perMinute]) => [
    name,
    { perMinute, perDay: PER_DAY },
  ]);
  keys = await createKeys(store, Object.fromEntries(limits));
  await store.ordersJson(["import", "-"], orderLines(1, ORDERS));
  service = await ClockedService.start(store.path);
  proxy = await RecordingProxy.start(service.port);
});

afterAll(async () => {
  await Promise.all([agent.close(), hastyAgent.close()]);
  await proxy[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  store.remove();
});

function bearer(name: ClientName): { readonly Authorization: string } {
  return { Authorization: `Bearer ${keys[name].key}` };
}

function exchangesOf(name: ClientName): Exchange[] {
  return proxy.of(keys[name].key);
}

/** Sends requests one after the other and does not wait for anything. */
async function spend(name: ClientName, requests: number): Promise<void> {
  for (let count = 0; count < requests; count += 1) {
    const response = await fetch(proxy.url + LIST, { headers: bearer(name) });
    await response.arrayBuffer();
  }
}

/** Expects a client to have waited for the end of each Retry-After. */
function expectObedience(name: ClientName, statuses: readonly number[]): void {
  const exchanges = exchangesOf(name);
  expect(exchanges.map(({ status }) => status)).toEqual(statuses);
  exchanges.forEach(({ retryAfterSeconds, answeredMs }, index) => {
    const next = exchanges[index + 1];
    if (retryAfterSeconds === null || next === undefined) return;
    expect(next.arrivedMs - answeredMs).toBeGreaterThanOrEqual(retryAfterSeconds * 1_000 - 5);
  });
}

async function listWithUndici(
  name: ClientName,
  dispatcher: Dispatcher,
  signal?: AbortSignal,
): Promise<number> {
  const { statusCode, body } = await request(proxy.url + LIST, {
    dispatcher,
    headers: bearer(name),
    signal,
  });
  await body.text();
  return statusCode;
}

test("a loop that hammers on is banned", async () => {
  const isBanned = () => exchangesOf("hammer").some(({ isBan }) => isBan);
  await spend("hammer", PER_MINUTE.hammer + 1);
  await service.advance(GRACE_SECONDS);
  await spend("hammer", 50);
  expect(isBanned()).toBe(false);
  await vi.waitUntil(() => spend("hammer", 1).then(isBanned), { timeout: 30_000, interval: 1 });
});

test("undici's RetryAgent waits at most 30 seconds by default", async () => {
  const timers = vi.spyOn(globalThis, "setTimeout");
  const abort = new AbortController();
  const listing = listWithUndici("hammer", agent, abort.signal);
  await vi.waitUntil(() => timers.mock.calls.some(([, ms]) => ms === 30_000));
  expect(exchangesOf("hammer").at(-1)?.retryAfterSeconds).toBeGreaterThan(30);
  timers.mockRestore();
  abort.abort();
  await expect(listing).rejects.toThrow();
});

// Side by side, because each client waits for the end of the same few seconds.
describe.concurrent("at the end of a minute that is used up", () => {
  beforeAll(async () => {
    const startMs = performance.now();
    await Promise.all([
      ...(["curl", "ky", "got", "undici", "ours"] as const).map((name) => spend(name, 2)),
      spend("hastyUndici", 3),
      spend("ourBatch", 1),
    ]);
    const elapsedSeconds = (performance.now() - startMs) / 1_000;
    await service.advance(60 - LEFT_SECONDS - elapsedSeconds);
  });

  test("curl --retry waits for Retry-After", async () => {
    const header = `Authorization: ${bearer("curl").Authorization}`;
    await run("curl", ["-sS", "--fail", "--retry", "3", "-H", header, proxy.url + LIST]);
    expectObedience("curl", [200, 200, 429, 200]);
  });

  test("ky waits for Retry-After", async () => {
    await ky.get(proxy.url + LIST, { headers: bearer("ky") }).json();
    expectObedience("ky", [200, 200, 429, 200]);
  });

  test("got waits for Retry-After", async () => {
    await got.get(proxy.url + LIST, { headers: bearer("got") }).json();
    expectObedience("got", [200, 200, 429, 200]);
  });

  test("undici's RetryAgent waits for a Retry-After that is not longer than its limit", async () => {
    expect(await listWithUndici("undici", agent)).toBe(200);
    expectObedience("undici", [200, 200, 429, 200]);
  });

  test("undici's RetryAgent retries too early after a longer one, and is not banned", async () => {
    expect(await listWithUndici("hastyUndici", hastyAgent)).toBe(200);
    const statuses = exchangesOf("hastyUndici").map(({ status }) => status);
    expect(statuses.slice(0, 5)).toEqual([200, 200, 429, 429, 429]);
    expect(statuses.length).toBeLessThanOrEqual(8);
    expect(statuses.at(-1)).toBe(200);
  });

  test("the client of this package waits for Retry-After", async () => {
    const delays: number[] = [];
    const client = createClient({
      baseUrl: proxy.url,
      apiKey: keys.ours.key,
      onRetry: ({ delayMs }) => delays.push(delayMs),
    });
    const orders = await client.listOrders().all();
    expect(orders.at(-1)).toMatchObject({ id: BigInt(ORDERS) });
    expect(await client.cancelOrder(ORDERS)).toBe("cancelled");
    expect(delays).toHaveLength(1);
    expectObedience("ours", [200, 200, 429, 200, 204]);
  });

  test("a batch of the client of this package is never refused", async () => {
    const client = createClient({ baseUrl: proxy.url, apiKey: keys.ourBatch.key });
    const etas: number[] = [];
    const ids = Array.from({ length: 10 }, (_, index) => index + 1);
    const results = await client.cancelOrders(ids, {
      onProgress: ({ etaSeconds }) => etas.push(etaSeconds),
    });
    expect(results).toEqual(ids.map((id) => ({ id: BigInt(id), outcome: "cancelled" })));
    const statuses = exchangesOf("ourBatch").map(({ status }) => status);
    expect(statuses).toEqual([200, ...ids.map(() => 204)]);
    expect(etas[0]).toBeGreaterThan(0);
    expect(etas[0]).toBeLessThanOrEqual(LEFT_SECONDS);
  });
});

test("the service has banned nobody but the loop", () => {
  const banned = new Set(proxy.exchanges.filter(({ isBan }) => isBan).map(({ key }) => key));
  expect([...banned]).toEqual([keys.hammer.key]);
  for (const { key } of Object.values(keys)) expect(proxy.of(key).length).toBeGreaterThan(0);
});
