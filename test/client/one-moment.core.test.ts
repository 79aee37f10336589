import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { ClientOptions, Retry } from "../../src/client/options.ts";
import type { Order } from "../../src/client/order.ts";
import { failed, list, OPTIONS, ScriptedService, unreachable } from "./scripted-service.ts";

const BROKEN = list('[{"id":1,"quantity":1},', '{"id":2}');
const WHOLE = list('[{"id":1,"quantity":2},', '{"id":3}]');
const ORDERS = [{ id: 1n, quantity: 2n }, { id: 3n }];

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/**
 * Loops over a list with `oneMoment`; returns the received orders and the error that ended the
 * loop.
 */
async function loop(service: ScriptedService, options: Partial<ClientOptions> = {}) {
  const received: Order[] = [];
  const client = createClient({ ...OPTIONS, fetch: service.fetch, ...options });
  const ended = (async () => {
    for await (const order of client.listOrders({ oneMoment: true })) received.push(order);
  })().then(
    () => null,
    (error: unknown) => error,
  );
  await vi.runAllTimersAsync();
  return { received, error: await ended };
}

test("requests an incomplete list again, and passes none of its orders to the loop", async () => {
  const service = new ScriptedService(BROKEN, unreachable, BROKEN, WHOLE);
  expect(await loop(service)).toEqual({ received: ORDERS, error: null });
  expect(service.requests).toHaveLength(4);
});

test("requests a complete list once", async () => {
  const service = new ScriptedService(WHOLE);
  expect(await loop(service)).toEqual({ received: ORDERS, error: null });
  expect(service.requests).toHaveLength(1);
});

test("throws after the last retry if every list is incomplete, and backs off before each retry", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.999_999);
  const retried: Retry[] = [];
  const service = new ScriptedService(BROKEN);
  const outcome = await loop(service, { retries: 3, onRetry: (retry) => void retried.push(retry) });
  expect(outcome.received).toEqual([]);
  expect(outcome.error).toMatchObject({ name: "BrokenListError", receivedCount: 2 });
  expect(service.requests).toHaveLength(4);
  expect(retried.map(({ delayMs }) => Math.round(delayMs))).toEqual([250, 500, 1_000]);
});

test("waits for Retry-After if the limits refuse a retry", async () => {
  const refused = failed(429, "rate_limit_exceeded", { "Retry-After": "31" });
  const service = new ScriptedService(BROKEN, refused, WHOLE);
  expect(await loop(service)).toEqual({ received: ORDERS, error: null });
  expect(service.gapsMs[1]).toBeGreaterThanOrEqual(31_000);
});

test("streams the orders without oneMoment, and an incomplete list throws with advice", async () => {
  const service = new ScriptedService(BROKEN);
  const received: Order[] = [];
  const client = createClient({ ...OPTIONS, fetch: service.fetch });
  const reading = (async () => {
    for await (const order of client.listOrders()) received.push(order);
  })();
  await expect(reading).rejects.toThrow(/broke off after 2 orders.* Read it again .* oneMoment/);
  expect(received).toEqual([{ id: 1n, quantity: 1n }, { id: 2n }]);
  expect(service.requests).toHaveLength(1);
});
