import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import got from "got";
import ky from "ky";
import { Agent, request, RetryAgent } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { Service } from "../service.ts";
import { type Exchange, RecordingProxy } from "./recording-proxy.ts";
import { createStore } from "./store.ts";

const run = promisify(execFile);

const LIST = "/v1/store/orders";

/** The longest that undici's agent waits, whatever Retry-After says, unless it is told otherwise. */
const UNDICI_LONGEST_SECONDS = 30;

const PER_MINUTE = {
  curl: 2,
  ky: 2,
  got: 2,
  undici: 2,
  hastyUndici: 2,
  ours: 2,
  ourBatch: 7,
  hammer: 20,
};

const agent = new RetryAgent(new Agent());

let folder: string;
let service: Service;
let proxy: RecordingProxy;
let keys: Record<keyof typeof PER_MINUTE, string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "store-orders-clients-"));
  keys = await createStore(folder, PER_MINUTE);
  service = await Service.start(folder);
  proxy = await RecordingProxy.start(service.port);
}, 120_000);

afterAll(async () => {
  await agent.close();
  await proxy[Symbol.asyncDispose]();
  await service.end("SIGTERM");
  await rm(folder, { recursive: true, force: true });
}, 60_000);

function bearer(key: string): { readonly Authorization: string } {
  return { Authorization: `Bearer ${key}` };
}

/** Waits for the end of each Retry-After, and is served in the end. */
function expectObedience(exchanges: readonly Exchange[], statuses: readonly number[]): void {
  expect(exchanges.map(({ status }) => status)).toEqual(statuses);
  exchanges.forEach(({ retryAfterSeconds, answeredMs }, index) => {
    const next = exchanges[index + 1];
    if (retryAfterSeconds === null || next === undefined) return;
    expect(next.arrivedMs - answeredMs).toBeGreaterThanOrEqual(retryAfterSeconds * 1_000 - 5);
  });
}

// Side by side, as each waits for a real minute.
describe.concurrent("against the real service", { timeout: 150_000 }, () => {
  test("curl --retry waits for Retry-After", async () => {
    const url = proxy.url + LIST;
    const header = `Authorization: Bearer ${keys.curl}`;
    await run("curl", ["-sS", "--fail", "--retry", "3", "-H", header, url, url, url]);
    expectObedience(proxy.of(keys.curl), [200, 200, 429, 200]);
  });

  test("ky waits for Retry-After", async () => {
    for (let count = 0; count < 3; count += 1) {
      await ky.get(proxy.url + LIST, { headers: bearer(keys.ky) }).json();
    }
    expectObedience(proxy.of(keys.ky), [200, 200, 429, 200]);
  });

  test("got waits for Retry-After", async () => {
    for (let count = 0; count < 3; count += 1) {
      await got.get(proxy.url + LIST, { headers: bearer(keys.got) }).json();
    }
    expectObedience(proxy.of(keys.got), [200, 200, 429, 200]);
  });

  test("undici's RetryAgent waits for a Retry-After of up to 30 seconds", async () => {
    const list = () => listWithUndici(keys.undici);
    expect(await list()).toBe(200);
    expect(await list()).toBe(200);
    // Until no more is left of the window than the agent is willing to wait.
    await delay((60 - UNDICI_LONGEST_SECONDS + 3) * 1_000);
    expect(await list()).toBe(200);
    expectObedience(proxy.of(keys.undici), [200, 200, 429, 200]);
  });

  test("undici's RetryAgent cuts a longer one short, and still gets there unbanned", async () => {
    for (let count = 0; count < 3; count += 1) {
      expect(await listWithUndici(keys.hastyUndici)).toBe(200);
    }
    const statuses = proxy.of(keys.hastyUndici).map(({ status }) => status);
    expect(statuses.slice(0, 4)).toEqual([200, 200, 429, 429]);
    expect(statuses.length).toBeLessThanOrEqual(6);
    expect(statuses.at(-1)).toBe(200);
  });

  test("the client of this package waits for Retry-After", async () => {
    const client = createClient({ baseUrl: proxy.url, apiKey: keys.ours });
    const delays: number[] = [];
    const patient = createClient({
      baseUrl: proxy.url,
      apiKey: keys.ours,
      onRetry: ({ delayMs }) => delays.push(delayMs),
    });
    expect(await client.listOrders().all()).toHaveLength(20);
    expect(await client.cancelOrder(20n)).toBe("cancelled");
    // Another client, which has not been told of the first one's use of the key.
    expect((await patient.listOrders().all()).length).toBeLessThan(20);
    expect(delays).toHaveLength(1);
    expectObedience(proxy.of(keys.ours), [200, 204, 429, 200]);
  });

  test("a batch of the client of this package is never refused", async () => {
    const client = createClient({ baseUrl: proxy.url, apiKey: keys.ourBatch });
    const etas: number[] = [];
    const ids = Array.from({ length: 10 }, (_, index) => index + 1);
    const results = await client.cancelOrders(ids, {
      onProgress: ({ etaSeconds }) => etas.push(etaSeconds),
    });
    expect(results).toEqual(ids.map((id) => ({ id: BigInt(id), outcome: "cancelled" })));
    expect(proxy.of(keys.ourBatch).map(({ status }) => status)).toEqual(ids.map(() => 204));
    expect(etas[0]).toBeGreaterThan(50);
    expect(etas[0]).toBeLessThanOrEqual(60);
  });

  test("a loop that hammers on is banned", async () => {
    const isBanned = () => proxy.of(keys.hammer).some(({ isBan }) => isBan);
    const startMs = performance.now();
    while (!isBanned() && performance.now() - startMs < 60_000) {
      const response = await fetch(proxy.url + LIST, { headers: bearer(keys.hammer) });
      await response.arrayBuffer();
      await delay(20);
    }
    expect(isBanned()).toBe(true);
  });
});

test("none of them was ever banned, but the one that hammered", () => {
  const banned = new Set(proxy.exchanges.filter(({ isBan }) => isBan).map(({ key }) => key));
  expect([...banned]).toEqual([keys.hammer]);
  for (const key of Object.values(keys)) expect(proxy.of(key).length).toBeGreaterThan(0);
});

async function listWithUndici(key: string): Promise<number> {
  const { statusCode, body } = await request(proxy.url + LIST, {
    dispatcher: agent,
    headers: bearer(key),
  });
  await body.text();
  return statusCode;
}
