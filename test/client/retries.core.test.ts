import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { Retry } from "../../src/client/options.ts";
import {
  cancelled,
  failed,
  list,
  OPTIONS,
  ScriptedService,
  silent,
  unreachable,
} from "./scripted-service.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  // The mocks must be restored before the clock. If the clock were restored first, restoring a spy
  // on `setTimeout` would reinstall the fake timer.
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/**
 * Advances the fake clock until a call of the client has ended, and returns the outcome of the
 * call.
 */
async function settled<T>(call: Promise<T>): Promise<PromiseSettledResult<T>> {
  const all = Promise.allSettled([call]);
  await vi.runAllTimersAsync();
  return (await all)[0];
}

function refused(seconds: number) {
  return failed(429, "rate_limit_exceeded", { "Retry-After": String(seconds) });
}

test.each([0, 0.5, 0.999_999])("never retries before Retry-After (jitter %d)", async (random) => {
  vi.spyOn(Math, "random").mockReturnValue(random);
  const service = new ScriptedService(refused(31), refused(1), cancelled);
  const client = createClient({ ...OPTIONS, fetch: service.fetch });
  expect(await settled(client.cancelOrder(1n))).toMatchObject({ value: "cancelled" });
  const [first = 0, second = 0] = service.gapsMs;
  expect(first).toBeGreaterThanOrEqual(31_000);
  expect(first).toBeLessThanOrEqual(31_250);
  expect(second).toBeGreaterThanOrEqual(1_000);
  expect(second).toBeLessThanOrEqual(1_500);
});

test("a timer that fires early does not cause a request before Retry-After", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  const setTimer = globalThis.setTimeout;
  let isFirst = true;
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms: number) => {
    const early = isFirst && ms === 31_000;
    if (early) isFirst = false;
    return setTimer(work, early ? ms - 5 : ms);
  }) as typeof setTimeout);
  const service = new ScriptedService(refused(31), cancelled);
  await settled(createClient({ ...OPTIONS, fetch: service.fetch }).cancelOrder(1n));
  expect(isFirst).toBe(false);
  expect(service.gapsMs[0]).toBeGreaterThanOrEqual(31_000);
});

test("Retry-After may be a date", async () => {
  const now = Date.now();
  const headers = {
    Date: new Date(now - 3_600_000).toUTCString(),
    "Retry-After": new Date(now - 3_600_000 + 20_000).toUTCString(),
  };
  const service = new ScriptedService(failed(503, "service_unavailable", headers), list("[]"));
  await settled(
    createClient({ ...OPTIONS, fetch: service.fetch })
      .listOrders()
      .all(),
  );
  expect(service.gapsMs[0]).toBeGreaterThanOrEqual(20_000);
  expect(service.gapsMs[0]).toBeLessThanOrEqual(20_250);
});

test("backs off with full jitter: from zero to a limit that doubles", async () => {
  const limits = [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000];
  for (const share of [0, 0.5, 0.999]) {
    vi.spyOn(Math, "random").mockReturnValue(share);
    const service = new ScriptedService(unreachable);
    const client = createClient({ ...OPTIONS, fetch: service.fetch, retries: limits.length });
    const outcome = await settled(client.listOrders().all());
    expect(outcome).toMatchObject({ reason: { code: "network_error", status: null } });
    expect(service.gapsMs).toHaveLength(limits.length);
    service.gapsMs.forEach((gap, index) => {
      const expected = limits[index]! * share;
      expect(gap).toBeGreaterThanOrEqual(expected);
      expect(gap).toBeLessThanOrEqual(expected + 2);
    });
  }
});

test("limits the number of retries, and calls onRetry for each", async () => {
  const retries: Retry[] = [];
  const service = new ScriptedService(failed(500, "internal_error"));
  const client = createClient({
    ...OPTIONS,
    fetch: service.fetch,
    retries: 2,
    onRetry: (retry) => retries.push(retry),
  });
  expect(await settled(client.cancelOrder(1n))).toMatchObject({
    reason: { code: "internal_error", status: 500 },
  });
  expect(service.requests).toHaveLength(3);
  expect(retries.map(({ attempt, error }) => [attempt, error.code])).toEqual([
    [1, "internal_error"],
    [2, "internal_error"],
  ]);
});

test("fails at once if the wait would exceed maxElapsedMs, with retryAfterSeconds", async () => {
  const service = new ScriptedService(refused(86_400));
  const client = createClient({ ...OPTIONS, fetch: service.fetch });
  expect(await settled(client.listOrders().all())).toMatchObject({
    reason: { code: "rate_limit_exceeded", retryAfterSeconds: 86_400 },
  });
  expect(service.requests).toHaveLength(1);
});

test("retries a proxy's 502", async () => {
  const service = new ScriptedService(
    () => new Response("Bad Gateway", { status: 502 }),
    cancelled,
  );
  const client = createClient({ ...OPTIONS, fetch: service.fetch });
  expect(await settled(client.cancelOrder(1n))).toMatchObject({ value: "cancelled" });
});

test("times out if the service does not answer, even if fetch ignores the signal", async () => {
  for (const answer of [silent, () => new Promise<Response>(() => undefined)]) {
    const service = new ScriptedService(answer);
    const client = createClient({ ...OPTIONS, fetch: service.fetch, timeoutMs: 700, retries: 1 });
    const startMs = performance.now();
    expect(await settled(client.cancelOrder(1n))).toMatchObject({ reason: { code: "timeout" } });
    expect(service.requests).toHaveLength(2);
    expect(performance.now() - startMs).toBeLessThanOrEqual(1_400 + 252);
  }
});

test("throws for a list that stops arriving, but not for a slow one", async () => {
  const slow = (gapMs: number) => () => {
    let parts = 0;
    const stream = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, gapMs));
        parts += 1;
        const text = parts < 10 ? `${parts === 1 ? "[" : ","}{"id":${parts}}` : "]";
        controller.enqueue(new TextEncoder().encode(text));
        if (parts === 10) controller.close();
      },
    });
    return new Response(stream, { headers: { "Content-Type": "application/json" } });
  };
  const client = (gapMs: number) =>
    createClient({
      ...OPTIONS,
      fetch: new ScriptedService(slow(gapMs)).fetch,
      timeoutMs: 1_000,
      retries: 0,
    });
  const arrived = await settled(client(900).listOrders().all());
  expect(arrived).toMatchObject({ status: "fulfilled", value: { length: 9 } });
  const stopped = await settled(client(1_100).listOrders().all());
  expect(stopped).toMatchObject({ reason: { code: "broken_list", cause: { code: "timeout" } } });
});

test.each([
  ["a response", new ScriptedService(silent)],
  ["a retry", new ScriptedService(refused(60))],
  [
    "the response to a fetch that ignores the signal",
    new ScriptedService(() => new Promise(() => undefined)),
  ],
])(
  "an abort while waiting for %s ends the call at once with the signal's reason",
  async (_, service) => {
    const abort = new AbortController();
    const reason = new Error("enough");
    const client = createClient({ ...OPTIONS, fetch: service.fetch });
    setTimeout(() => abort.abort(reason), 5_000);
    const startMs = performance.now();
    const outcome = await settled(client.cancelOrder(1n, { signal: abort.signal }));
    expect(outcome).toMatchObject({ status: "rejected", reason });
    expect(performance.now() - startMs).toBe(5_000);
    expect(service.requests).toHaveLength(1);
  },
);

const BROKEN = list('[{"id":1,"quantity":1},', '{"id":2}');

test.each([
  ["requests an incomplete list again", [BROKEN, unreachable, list('[{"id":3}]')], [3n], null],
  ["throws after the last retry", [BROKEN], [], { code: "broken_list", receivedCount: 2 }],
])(
  "with oneMoment, a loop %s, and gets no order of an incomplete list",
  async (_, answers, ids, error) => {
    const service = new ScriptedService(...answers);
    const client = createClient({ ...OPTIONS, fetch: service.fetch, retries: 2 });
    const received: bigint[] = [];
    const loop = async () => {
      for await (const { id } of client.listOrders({ oneMoment: true })) received.push(id);
    };
    const outcome = await settled(loop());
    expect(outcome).toMatchObject(error === null ? { status: "fulfilled" } : { reason: error });
    expect(received).toEqual(ids);
    expect(service.requests).toHaveLength(3);
  },
);

test("an abort before the call sends nothing", async () => {
  const service = new ScriptedService(cancelled);
  const client = createClient({ ...OPTIONS, fetch: service.fetch });
  const signal = AbortSignal.abort(new Error("enough"));
  await expect(client.cancelOrder(1n, { signal })).rejects.toThrow("enough");
  await expect(client.listOrders({ signal }).all()).rejects.toThrow("enough");
  await expect(client.cancelOrders([1n], { signal })).rejects.toMatchObject({
    code: "batch_interrupted",
    unsettledIds: [1n],
    cause: { message: "enough" },
  });
  expect(service.requests).toHaveLength(0);
});
