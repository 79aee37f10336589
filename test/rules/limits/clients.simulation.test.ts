import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { retryDelayMs } from "../../../src/client/retry.ts";
import { type Limits, PLAN_LIMITS } from "../../../src/rules/limits/plans.ts";
import { strikesToBan } from "../../../src/rules/limits/strikes.ts";
import { HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import { DEFAULT_BANS, keyPolicy, SimulatedLimiter, START_MS } from "./simulated-limiter.ts";
import { type Client, doubling, type Draw, loop, patient } from "./traffic.ts";
import { requestsOf, seededRandom } from "./traffic.ts";

// The rules are those of docs/limits.md, Bans.

const { free, business } = PLAN_LIMITS;

/** A limit per day that never refuses a request. */
const ANY_DAY = 1_000_000_000;

const between =
  (minMs: number, maxMs: number, random: Draw): Draw =>
  () =>
    Math.round(minMs + random() * (maxMs - minMs));

function fleet(size: number, client: (random: Draw) => Client, seed = 1): Client[] {
  const random = seededRandom(seed);
  return Array.from({ length: size }, () => client(random));
}

/** Simulates clients that share one key, for `durationMs` or until the key is banned. */
function run({ perMinute, perDay }: Limits, clients: readonly Client[], durationMs: number) {
  const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
  const counts = { admitted: 0, refused: 0 };
  /** Sorted by `dueMs` in descending order, so `pop` returns the client that is due first. */
  const waiting: { requests: ReturnType<typeof requestsOf>; dueMs: number }[] = [];
  const add = (requests: ReturnType<typeof requestsOf>, dueMs: number) => {
    const index = waiting.findIndex((other) => other.dueMs <= dueMs);
    waiting.splice(index === -1 ? waiting.length : index, 0, { requests, dueMs });
  };
  for (const requests of clients.map(requestsOf)) add(requests, requests.next().value);
  for (;;) {
    const { requests, dueMs } = waiting.pop()!;
    if (dueMs >= durationMs) return { ...counts, bannedAfterMs: null };
    const decision = limiter.at(Math.floor(dueMs)).request();
    if (decision.banned) return { ...counts, bannedAfterMs: limiter.nowMs - START_MS };
    counts[decision.admitted ? "admitted" : "refused"] += 1;
    add(requests, dueMs + requests.next(decision).value);
  }
}

const jittering = (random: Draw): Client => ({
  startMs: random() * 10_000,
  latencyMs: between(10, 510, random),
  waitMs: (retryAfterMs) => retryAfterMs + Math.round(random() * 10_000),
});

/** Uses the client package with its default of five retries. */
const packaged = (random: Draw): Client => ({
  latencyMs: between(10, 510, random),
  waitMs: (retryAfterMs, refusals) =>
    refusals % 6 === 0 ? 0 : retryDelayMs(retryAfterMs / 1_000, refusals % 6),
});

test.for([
  [70, "jitters by up to 10 seconds", jittering, free, 20],
  [180, "jitters by up to 10 seconds", jittering, free, 20],
  [400, "jitters by up to 10 seconds", jittering, free, 20],
  [3_000, "jitters by up to 10 seconds", jittering, business, 4],
  [180, "retries like the client package", packaged, free, 20],
] as const)("a fleet of %i that %s is never banned", ([size, , client, { perMinute }, minutes]) => {
  vi.spyOn(Math, "random").mockImplementation(seededRandom(1));
  const limits = { perMinute, perDay: ANY_DAY };
  const { bannedAfterMs, refused } = run(limits, fleet(size, client), minutes * MINUTE_MS);
  expect(refused).toBeGreaterThan(size);
  expect(bannedAfterMs).toBeNull();
});

test("a fleet with as many workers as strikes lead to a ban, with any limits and any latency, is never banned if it waits for Retry-After", () => {
  const anyWork = fc.record({
    perMinute: fc.oneof(fc.integer({ min: 1, max: 90 }), fc.constant(2_000)),
    perDay: fc.integer({ min: 1, max: 600 }),
    latencyMs: fc.nat(1_500),
    workMs: fc.nat(60_000),
    seed: fc.integer(),
  });
  fc.assert(
    fc.property(anyWork, ({ latencyMs, workMs, seed, ...limits }) => {
      const worker = (random: Draw) =>
        patient({
          latencyMs: between(latencyMs / 10, latencyMs, random),
          workMs: between(workMs / 2, workMs, random),
        });
      const workers = fleet(strikesToBan(DEFAULT_BANS, limits.perMinute), worker, seed);
      expect(run(limits, workers, 25 * HOUR_MS).bannedAfterMs).toBeNull();
    }),
    { numRuns: 8 },
  );
});

test.for<[firstMs: number, capMs: number, jitter: Draw]>([
  [100, 5_000, () => 1],
  [100, 5_000, seededRandom(1)],
])("a client that doubles its wait from %d ms to %d ms is never banned", (waits) => {
  const slow = [60, ANY_DAY].map((perDay) => ({ perMinute: 1, perDay }));
  for (const limits of [free, { ...free, perDay: 60 }, ...slow]) {
    const { bannedAfterMs, refused } = run(limits, [doubling(...waits, 20)], 3 * HOUR_MS);
    expect(bannedAfterMs).toBeNull();
    expect(refused).toBeGreaterThan(100);
  }
});

test("a loop on a Free key is banned after about 50 seconds at 3 requests a second, and sooner at higher rates", () => {
  let latestMs = 51_000;
  for (const rate of [3, 3.5, 60]) {
    const { admitted, bannedAfterMs } = run(free, [loop(rate)], MINUTE_MS);
    expect(admitted).toBe(60);
    expect(bannedAfterMs).toBeLessThan(latestMs);
    if (rate === 3) expect(bannedAfterMs).toBeGreaterThan(49_000);
    latestMs = bannedAfterMs!;
  }
  // At 1.5 requests a second, the refusals of a minute are fewer than the limit.
  expect(run({ ...free, perDay: ANY_DAY }, [loop(1.5)], HOUR_MS).bannedAfterMs).toBeNull();
});
