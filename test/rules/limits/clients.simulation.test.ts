import fc from "fast-check";
import { expect, test } from "vitest";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { type Limits, PLAN_LIMITS } from "../../../src/rules/limits/plans.ts";
import { strikesToBan } from "../../../src/rules/limits/strikes.ts";
import { HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import { DEFAULT_BANS, keyPolicy, SimulatedLimiter, START_MS } from "./simulated-limiter.ts";
import { type Draw, seededRandom } from "./traffic.ts";

// The rules are those of docs/limits.md, Bans.

/**
 * Returns the milliseconds until the client's next request arrives. `refusals` were refused in a row:
 * 0 after an admission, and at the start.
 */
type Client = (retryAfterMs: number, refusals: number) => number;

const { free, business } = PLAN_LIMITS;

const between = (minMs: number, maxMs: number, random: Draw) =>
  Math.round(minMs + random() * (maxMs - minMs));

function fleet(size: number, client: (random: Draw) => Client, seed = 1): Client[] {
  const random = seededRandom(seed);
  return Array.from({ length: size }, () => client(random));
}

/** Simulates clients that share one key, for `durationMs` or until the key is banned. */
function run({ perMinute, perDay }: Limits, clients: readonly Client[], durationMs: number) {
  const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
  let [admitted, refused] = [0, 0];
  const waiting = clients.map((client) => ({ client, refusals: 0, dueMs: client(0, 0) }));
  for (;;) {
    const next = waiting.reduce((one, other) => (other.dueMs < one.dueMs ? other : one));
    if (next.dueMs >= durationMs) return { admitted, refused, bannedAfterMs: null };
    limiter.nowMs = START_MS + Math.floor(next.dueMs);
    const decision = limiter.request();
    if (decision.banned) return { admitted, refused, bannedAfterMs: Math.floor(next.dueMs) };
    if (decision.admitted) admitted += 1;
    else refused += 1;
    next.refusals = decision.admitted ? 0 : next.refusals + 1;
    next.dueMs += next.client(1_000 * retryAfterSeconds(decision), next.refusals);
  }
}

const jittering = (random: Draw): Client => {
  const latencyMs = () => between(10, 510, random);
  return (retryAfterMs, refusals) =>
    latencyMs() + latencyMs() + (refusals === 0 ? 0 : retryAfterMs + random() * 10_000);
};

const doubling =
  (jitter: Draw): Client =>
  (_, refusals) =>
    refusals === 0 ? 20 : jitter() * Math.min(5_000, 100 * 2 ** (refusals - 1));

const anyDay = (perMinute: number) => ({ perMinute, perDay: 1_000_000_000 });
const tight = [free, { ...free, perDay: 60 }, { perMinute: 1, perDay: 60 }, anyDay(1)];

test.for<[client: string, Client[], Limits[], minutes: number]>([
  ["a fleet of 70 that jitters by up to 10 seconds", fleet(70, jittering), [anyDay(60)], 20],
  ["a fleet of 180 that jitters", fleet(180, jittering), [anyDay(60)], 20],
  ["a fleet of 400 that jitters", fleet(400, jittering), [anyDay(60)], 20],
  ["a fleet of 3000 that jitters", fleet(3_000, jittering), [anyDay(business.perMinute)], 4],
  ["a client that doubles its wait", [doubling(() => 1)], tight, 180],
  ["a client that doubles its wait with full jitter", [doubling(seededRandom(1))], tight, 180],
])("%s is never banned", ([, clients, someLimits, minutes]) => {
  for (const limits of someLimits) {
    const { bannedAfterMs, refused } = run(limits, clients, minutes * MINUTE_MS);
    expect(bannedAfterMs).toBeNull();
    expect(refused).toBeGreaterThan(Math.max(100, clients.length));
  }
});

test("a fleet with as many workers as strikes lead to a ban, with any limits and any latency, is never banned if it waits for Retry-After", () => {
  const anyWork = fc.record({
    perMinute: fc.oneof(fc.integer({ min: 1, max: 90 }), fc.constant(2_000)),
    perDay: fc.integer({ min: 1, max: 600 }),
    latencyMs: fc.nat(1_500),
    longestWorkMs: fc.nat(60_000),
    seed: fc.integer(),
  });
  fc.assert(
    fc.property(anyWork, ({ latencyMs, longestWorkMs, seed, ...limits }) => {
      const worker = (random: Draw): Client => {
        const bothWaysMs = () => between(latencyMs / 5, 2 * latencyMs, random);
        const workMs = () => between(longestWorkMs / 2, longestWorkMs, random);
        return (retryAfterMs, refusals) =>
          bothWaysMs() + (refusals === 0 ? workMs() : retryAfterMs);
      };
      const workers = fleet(strikesToBan(DEFAULT_BANS, limits.perMinute), worker, seed);
      expect(run(limits, workers, 25 * HOUR_MS).bannedAfterMs).toBeNull();
    }),
    { numRuns: 8 },
  );
});

test("a loop on a Free key is banned after about 50 seconds at 3 requests a second, and sooner at higher rates", () => {
  expect([3, 3.5, 60].map((rate) => run(free, [() => 1_000 / rate], MINUTE_MS))).toEqual([
    { admitted: 60, refused: 89, bannedAfterMs: 50_000 },
    { admitted: 60, refused: 94, bannedAfterMs: 44_285 },
    { admitted: 60, refused: 659, bannedAfterMs: 11_999 },
  ]);
});
