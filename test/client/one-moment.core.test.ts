import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { ClientOptions, Retry } from "../../src/client/options.ts";
import type { Order } from "../../src/client/order.ts";
import { list, OPTIONS, ScriptedService, unreachable } from "./scripted-service.ts";

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
