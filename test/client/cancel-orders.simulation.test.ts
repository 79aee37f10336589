import { beforeEach, expect, test, vi } from "vitest";
import type { BatchProgress } from "../../src/client/cancel-orders.ts";
import type { BatchInterruptedError } from "../../src/client/errors.ts";
import { quotaHeaders, retryAfterSeconds } from "../../src/rules/limits/headers.ts";
import { keyPolicy, SimulatedLimiter, START_MS } from "../rules/limits/simulated-limiter.ts";
import { type Draw, seededRandom } from "../rules/limits/traffic.ts";
import {
  cancelled,
  clientOf,
  failed,
  ignoresSignal,
  quota,
  roomy,
  ScriptedService,
  settled,
} from "./scripted-service.ts";

/**
 * Simulates the service behind a slow network, with the real limiter's decisions and headers.
 *
 * @param latencyMs returns a random delay in milliseconds for each request and each response.
 */
function limitedService(perMinute: number, perDay: number, latencyMs: Draw) {
  const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
  const counts = { admitted: 0, refused: 0, banned: 0, underWay: 0, mostUnderWay: 0 };
  const travel = () => new Promise((resolve) => setTimeout(resolve, latencyMs()));
  /** Returns the response to a request that arrives now. */
  const answer = () => {
    // The service's clock is 437 ms ahead of the client's clock, so that whole seconds begin at
    // different times.
    limiter.nowMs = START_MS + Math.floor(performance.now()) + 437;
    const decision = limiter.request();
    const headers = quotaHeaders(decision);
    for (const name of ["admitted", "banned"] as const) counts[name] += Number(decision[name]);
    if (decision.admitted) return new Response(null, { status: 204, headers });
    counts.refused += 1;
    const code = decision.banned ? "api_key_banned" : "rate_limit_exceeded";
    return failed(429, code, { ...headers, "Retry-After": String(retryAfterSeconds(decision)) })();
  };
  const fetch = async (): Promise<Response> => {
    counts.underWay += 1;
    counts.mostUnderWay = Math.max(counts.mostUnderWay, counts.underWay);
    await travel();
    const response = answer();
    await travel();
    counts.underWay -= 1;
    return response;
  };
  return { counts, answer, fetch };
}

beforeEach(() => void vi.useFakeTimers({ loopLimit: 1_000_000 }));

const ids = (count: number) => Array.from({ length: count }, (_, index) => BigInt(index + 1));

test.each<[count: number, perMinute: number, perDay: number, Draw, number, least: number]>([
  [110, 20, 100, seededRandom(7, 200), 16, 86_400],
  [350, 100, 1_000, seededRandom(7, 200), 16, 180],
  [55, 30, 1_000, () => 500, 5, 60],
])(
  "%d cancellations on %d a minute and %d a day are not refused, and end when etaSeconds says (%#)",
  async (count, perMinute, perDay, draw, concurrency, least) => {
    const service = limitedService(perMinute, perDay, draw);
    const steps: (BatchProgress & { readonly atSeconds: number })[] = [];
    const seconds = () => performance.now() / 1_000;
    const startSeconds = seconds();
    const onProgress = (step: BatchProgress) => steps.push({ ...step, atSeconds: seconds() });
    const batch = clientOf(service).cancelOrders(ids(count), { concurrency, onProgress });
    expect(await settled(batch)).toMatchObject({ value: { length: count } });
    expect(service.counts).toMatchObject({ admitted: count, refused: 0 });
    expect(service.counts.mostUnderWay).toBeLessThanOrEqual(concurrency);
    // The batch waits for the ends of windows. Rounding and requests take a second or two in each.
    expect(seconds() - startSeconds).toBeGreaterThanOrEqual(least);
    expect(seconds() - startSeconds).toBeLessThan(least + 20);
    for (const [index, { done, total, etaSeconds, atSeconds }] of steps.entries()) {
      expect([done, total, etaSeconds > 0]).toEqual([index + 1, count, index + 1 < count]);
      const leftSeconds = steps.at(-1)!.atSeconds - atSeconds;
      expect(Math.abs(etaSeconds - leftSeconds), `step ${index}`).toBeLessThanOrEqual(3);
    }
  },
);

test("no request is refused, with any latency, limits and concurrency", async () => {
  const random = seededRandom(42);
  for (let seed = 1; seed <= 16; seed += 1) {
    const perMinute = 1 + Math.floor(random() * 40);
    const perDay = perMinute + Math.floor(random() * 200);
    const slowestMs = random() < 0.5 ? 5 : 20_000;
    const service = limitedService(perMinute, perDay, seededRandom(seed, slowestMs));
    const client = clientOf(service, { timeoutMs: 60_000, pacing: true });
    const concurrency = 1 + Math.floor(random() * 50);
    const calls: Promise<unknown> =
      seed % 4 === 0
        ? Promise.all(ids(100).map((id) => client.cancelOrder(id)))
        : client.cancelOrders(ids(100), { concurrency });
    expect((await settled(calls)).status, `seed ${seed}`).toBe("fulfilled");
    expect(service.counts, `seed ${seed}`).toMatchObject({ admitted: 100, refused: 0 });
  }
});

test("a batch waits and is not banned while another client uses the same key", async () => {
  const service = limitedService(60, 10_000, seededRandom(5, 100));
  const other = setInterval(() => service.answer(), 1_500);
  const client = clientOf(service);
  const batch = client.cancelOrders(ids(200)).finally(() => clearInterval(other));
  expect(await settled(batch)).toMatchObject({ value: { length: 200 } });
  expect(service.counts).toMatchObject({ banned: 0, mostUnderWay: 6 });
});

test("a batch that waits for a day goes on when a look at the quota, which never waits, shows room", async () => {
  const service = new ScriptedService(
    failed(429, "api_key_banned", { ...quota(0), "Retry-After": "86400" }),
    () => Response.json({ windows: [], ban: null, expiresAt: null }, { headers: quota(999) }),
    roomy,
  );
  const client = clientOf(service, { pacing: true });
  const batch = client.cancelOrders(ids(3));
  setTimeout(() => void client.quota(), 5_000);
  expect(await settled(batch)).toMatchObject({ value: { length: 3 } });
  expect(service.requests.at(-1)!.atMs - service.requests[0]!.atMs).toBeLessThan(6_000);
});

test("the limits in a 401, 403 or 5xx are those of an address and delay no call of the key", async () => {
  const answers = [401, 403, 503].map((status) => failed(status, "of_an_address", quota(0)));
  const service = new ScriptedService(roomy, ...answers, roomy);
  const client = clientOf(service, { pacing: true, retries: 0 });
  for (const id of ids(5)) await settled(client.cancelOrder(id));
  expect(service.gapsMs).toEqual([0, 0, 0, 0]);
});

test("cancels each id once and returns the outcomes in the order of the ids", async () => {
  const service = new ScriptedService(async ({ url }) => {
    if (url.endsWith("/2")) return failed(404, "order_not_found")();
    if (url.endsWith("/4")) return roomy();
    await new Promise((resolve) => setTimeout(resolve, 5));
    return failed(409, "order_already_shipped")();
  });
  const client = clientOf(service);
  const latest: unknown[] = [];
  const onProgress = (progress: BatchProgress) => void latest.push(progress.latest);
  const value = [
    { id: 4n, outcome: "cancelled" },
    { id: 3n, outcome: "already_shipped" },
    { id: 2n, outcome: "not_found" },
  ];
  const batch = client.cancelOrders([4n, 3n, "2", 2, 4n], { onProgress, concurrency: 1_000 });
  expect(await settled(batch)).toMatchObject({ value });
  // After the first answer, the client knows that there is room for the others at once.
  expect(latest).toEqual([value[0], value[2], value[1]]);
  expect(service.requests).toHaveLength(3);
  expect(await client.cancelOrders([])).toEqual([]);
});

const revoked = [cancelled, cancelled, failed(401, "unauthorized"), ignoresSignal];
const UNAUTHORIZED = { status: 401, requestId: "request-1", cause: { code: "unauthorized" } };
test.each([
  ["a 401", new ScriptedService(...revoked), { concurrency: 2 }, 2, UNAUTHORIZED],
  ["an abort while it waits", limitedService(5, 1_000, seededRandom(9, 50)), {}, 5, { cause: 5 }],
])("%s ends a batch at once, with a list of every order", async (_, service, more, done, error) => {
  const abort = new AbortController();
  setTimeout(() => abort.abort(5), 30_000);
  const startMs = performance.now();
  const batch = clientOf(service).cancelOrders(ids(12), { ...more, signal: abort.signal });
  let tookMs = NaN;
  const ended = batch.finally(() => (tookMs = performance.now() - startMs));
  const { reason } = (await settled(ended)) as { readonly reason: BatchInterruptedError };
  expect(reason).toMatchObject({ code: "batch_interrupted", results: { length: done }, ...error });
  const listed = [...reason.results.map(({ id }) => id), ...reason.unsettledIds];
  expect(listed.toSorted((one, other) => Number(one - other))).toEqual(ids(12));
  expect(tookMs).toBe("cause" in error && error.cause === 5 ? 30_000 : 0);
  expect(vi.getTimerCount()).toBe(0);
});
