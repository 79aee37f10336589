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
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** What a loop over the list of one moment received, and how it ended. */
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

test("a list that breaks off is asked for again, and nothing of it reaches the loop", async () => {
  const service = new ScriptedService(BROKEN, unreachable, BROKEN, WHOLE);
  expect(await loop(service)).toEqual({ received: ORDERS, error: null });
  expect(service.requests).toHaveLength(4);
});

test("a list that is whole is asked for once", async () => {
  const service = new ScriptedService(WHOLE);
  expect(await loop(service)).toEqual({ received: ORDERS, error: null });
  expect(service.requests).toHaveLength(1);
});

test("one that always breaks off ends in an error after so many repetitions, which back off", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.999_999);
  const retried: Retry[] = [];
  const service = new ScriptedService(BROKEN);
  const outcome = await loop(service, { retries: 3, onRetry: (retry) => void retried.push(retry) });
  expect(outcome.received).toEqual([]);
  expect(outcome.error).toMatchObject({ name: "BrokenListError", receivedCount: 2 });
  expect(service.requests).toHaveLength(4);
  expect(retried.map(({ delayMs }) => Math.round(delayMs))).toEqual([250, 500, 1_000]);
});

test("a repetition that the limits refuse waits for Retry-After", async () => {
  const refused = failed(429, "rate_limit_exceeded", { "Retry-After": "31" });
  const service = new ScriptedService(BROKEN, refused, WHOLE);
  expect(await loop(service)).toEqual({ received: ORDERS, error: null });
  expect(service.gapsMs[1]).toBeGreaterThanOrEqual(31_000);
});

test("without it orders stream, and the error says how to go on", async () => {
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
