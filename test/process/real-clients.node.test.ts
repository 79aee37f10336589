import { execFile } from "node:child_process";
import { promisify } from "node:util";
import ky from "ky";
import { Agent, type Dispatcher, request, RetryAgent } from "undici";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createClient, type StoreOrdersClient } from "../../src/client/client.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { ClockedService } from "./clocked-service.ts";
import { createKeys, type NewKey } from "./create-keys.ts";
import { orderLines } from "./order-lines.ts";
import { type Exchange, RecordingProxy } from "./recording-proxy.ts";

const run = promisify(execFile);

const LIST = "/v1/store/orders";
const ORDERS = 20;

/** Refusals within this time after the first refusal are not strikes (docs/limits.md, Bans). */
const GRACE_SECONDS = 10;
/** The seconds that are left of each key's minute window when the clients send their requests. */
const LEFT_SECONDS = 6;

const PER_DAY = 100_000;
const PER_MINUTE = {
  curl: 2,
  ky: 2,
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

/** Sends requests one after the other and ignores `Retry-After`. */
async function spend(name: ClientName, requests: number): Promise<void> {
  for (let count = 0; count < requests; count += 1) {
    const response = await fetch(proxy.url + LIST, { headers: bearer(name) });
    await response.arrayBuffer();
  }
}

/**
 * Expects the responses to a client to have the given HTTP statuses, and the client to have waited
 * for each `Retry-After`.
 */
function expectObedience(name: ClientName, statuses: readonly number[]): void {
  const exchanges = exchangesOf(name);
  expect(exchanges.map(({ status }) => status)).toEqual(statuses);
  exchanges.forEach(({ retryAfterSeconds, answeredMs }, index) => {
    const next = exchanges[index + 1];
    if (retryAfterSeconds === null || next === undefined) return;
    expect(next.arrivedMs - answeredMs).toBeGreaterThanOrEqual(retryAfterSeconds * 1_000 - 5);
  });
}

async function listWithUndici(name: ClientName, dispatcher: Dispatcher): Promise<number> {
  const { statusCode, body } = await request(proxy.url + LIST, {
    dispatcher,
    headers: bearer(name),
  });
  await body.text();
  return statusCode;
}

test("a client that ignores all refusals is banned", async () => {
  const isBanned = () => exchangesOf("hammer").some(({ isBan }) => isBan);
  await spend("hammer", PER_MINUTE.hammer + 1);
  await service.advance(GRACE_SECONDS);
  await spend("hammer", 50);
  expect(isBanned()).toBe(false);
  await vi.waitUntil(() => spend("hammer", 1).then(isBanned), { timeout: 30_000, interval: 1 });
});

test("undici's RetryAgent waits at most 30 seconds by default", async () => {
  const setTimer = globalThis.setTimeout;
  const timers = vi
    .spyOn(globalThis, "setTimeout")
    .mockImplementation(((work: () => void, ms: number) =>
      setTimer(work, ms === 30_000 ? 0 : ms)) as typeof setTimeout);
  const retries = 5;
  await expect(listWithUndici("hammer", agent)).rejects.toMatchObject({ statusCode: 429 });
  expect(timers.mock.calls.filter(([, ms]) => ms === 30_000)).toHaveLength(retries);
  timers.mockRestore();
  const seconds = exchangesOf("hammer").map(({ retryAfterSeconds }) => retryAfterSeconds);
  expect(Math.min(...seconds.slice(-retries).map(Number))).toBeGreaterThan(30);
});

describe("near the end of a minute window without requests left", () => {
  let ours: StoreOrdersClient;
  const delaysMs: number[] = [];
  const etas: number[] = [];
  let longestWindowSeconds = 0;
  const batch = Array.from({ length: 10 }, (_, index) => index + 1);

  const clients = {
    curl: () => {
      const header = `Authorization: ${bearer("curl").Authorization}`;
      return run("curl", ["-sS", "--fail", "--retry", "3", "-H", header, proxy.url + LIST]);
    },
    ky: () => ky.get(proxy.url + LIST, { headers: bearer("ky") }).json(),
    undici: () => listWithUndici("undici", agent),
    hastyUndici: () => listWithUndici("hastyUndici", hastyAgent),
    ours: () => ours.listOrders().all(),
    ourBatch: () =>
      createClient({ baseUrl: proxy.url, apiKey: keys.ourBatch.key }).cancelOrders(batch, {
        onProgress: ({ etaSeconds }) => etas.push(etaSeconds),
      }),
  };
  let ended: { [Name in keyof typeof clients]: ReturnType<(typeof clients)[Name]> };

  // All clients run at the same time, so that the test waits only once for the end of the minute
  // windows.
  beforeAll(async () => {
    ours = createClient({
      baseUrl: proxy.url,
      apiKey: keys.ours.key,
      onRetry: ({ delayMs }) => delaysMs.push(delayMs),
    });
    const startMs = performance.now();
    await Promise.all([
      ...(["curl", "ky", "undici", "ours"] as const).map((name) => spend(name, 2)),
      spend("hastyUndici", 3),
      spend("ourBatch", 1),
    ]);
    const elapsedSeconds = (performance.now() - startMs) / 1_000;
    await service.advance(60 - LEFT_SECONDS - elapsedSeconds);
    longestWindowSeconds = LEFT_SECONDS + elapsedSeconds + 1;
    const started = Object.entries(clients).map(([name, start]) => [name, start()] as const);
    ended = Object.fromEntries(started) as typeof ended;
    await Promise.allSettled(Object.values(ended));
  });

  test.each(["curl", "ky"] as const)("%s waits for Retry-After", async (name) => {
    await ended[name];
    expectObedience(name, [200, 200, 429, 200]);
  });

  test("undici's RetryAgent waits for a Retry-After up to its maxTimeout", async () => {
    expect(await ended.undici).toBe(200);
    expectObedience("undici", [200, 200, 429, 200]);
  });

  test("undici's RetryAgent retries early after a longer Retry-After, but is not banned", async () => {
    expect(await ended.hastyUndici).toBe(200);
    const statuses = exchangesOf("hastyUndici").map(({ status }) => status);
    expect(statuses.slice(0, 5)).toEqual([200, 200, 429, 429, 429]);
    expect(statuses.length).toBeLessThanOrEqual(8);
    expect(statuses.at(-1)).toBe(200);
  });

  test("the client of this package waits for Retry-After", async () => {
    expect((await ended.ours).at(-1)).toMatchObject({ id: BigInt(ORDERS) });
    expect(delaysMs).toHaveLength(1);
    expect(await ours.cancelOrder(ORDERS)).toBe("cancelled");
    expectObedience("ours", [200, 200, 429, 200, 204]);
  });

  test("a batch of the client of this package is never refused", async () => {
    const results = batch.map((id) => ({ id: BigInt(id), outcome: "cancelled" }));
    expect(await ended.ourBatch).toEqual(results);
    const statuses = exchangesOf("ourBatch").map(({ status }) => status);
    expect(statuses).toEqual([200, ...batch.map(() => 204)]);
    expect(etas[0]).toBeGreaterThan(0);
    // Allows 2 more seconds for rounding up, and for the cancellations after the minute window's
    // end.
    expect(etas[0]).toBeLessThanOrEqual(longestWindowSeconds + 2);
  });
});

test("the service has banned only the client that ignores all refusals", () => {
  const banned = new Set(proxy.exchanges.filter(({ isBan }) => isBan).map(({ key }) => key));
  expect([...banned]).toEqual([keys.hammer.key]);
  for (const { key } of Object.values(keys)) expect(proxy.of(key).length).toBeGreaterThan(0);
});
