import fc from "fast-check";
import { expect, test } from "vitest";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import type { Limits } from "../../../src/rules/limits/plans.ts";
import { HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import { keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";
import { type Draw, seededRandom } from "./traffic.ts";

// The rules are those of docs/limits.md, Bans.

/**
 * Returns the milliseconds until the client's next request arrives. `refusals` were refused in a row:
 * 0 after an admission, and at the start.
 */
type Client = (retryAfterMs: number, refusals: number) => number;

const between =
  (minMs: number, maxMs: number, random: Draw): Draw =>
  () =>
    Math.round(minMs + random() * (maxMs - minMs));

/** Simulates clients that share one key, for `durationMs` or until the key is banned. */
function run({ perMinute, perDay }: Limits, clients: readonly Client[], durationMs: number) {
  const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
  let refused = 0;
  const waiting = clients.map((client) => ({ client, refusals: 0, dueMs: client(0, 0) }));
  for (;;) {
    const next = waiting.reduce((one, other) => (other.dueMs < one.dueMs ? other : one));
    if (next.dueMs >= durationMs) return { refused, banned: false };
    const decision = limiter.at(Math.floor(next.dueMs)).request();
    if (decision.banned) return { refused, banned: true };
    if (!decision.admitted) refused += 1;
    next.refusals = decision.admitted ? 0 : next.refusals + 1;
    next.dueMs += next.client(1_000 * retryAfterSeconds(decision), next.refusals);
  }
}

const jittering =
  (random: Draw): Client =>
  (retryAfterMs, refusals) =>
    20 + random() * 1_000 + (refusals === 0 ? 0 : retryAfterMs + random() * 10_000);

const doubling =
  (jitter: Draw): Client =>
  (_, refusals) =>
    refusals === 0 ? 20 : jitter() * Math.min(5_000, 100 * 2 ** (refusals - 1));

const anyDay = (perMinute: number) => ({ perMinute, perDay: 1_000_000_000 });
const tight = { perMinute: 1, perDay: 60 };

test.for<[client: string, number, (random: Draw) => Client, Limits, minutes: number]>([
  ["a fleet of 70 that jitters by up to 10 seconds", 70, jittering, anyDay(60), 20],
  ["a fleet of 400 that jitters", 400, jittering, anyDay(60), 20],
  ["a fleet of 3000 that jitters", 3_000, jittering, anyDay(2_000), 4],
  ["a client that doubles its pause", 1, () => doubling(() => 1), tight, 180],
  ["a client that doubles its pause with full jitter", 1, doubling, tight, 180],
])("%s is never banned", ([, length, client, limits, minutes]) => {
  const random = seededRandom(1);
  const clients = Array.from({ length }, () => client(random));
  const { banned, refused } = run(limits, clients, minutes * MINUTE_MS);
  expect(banned).toBe(false);
  expect(refused).toBeGreaterThan(100);
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
      const random = seededRandom(seed);
      const worker = (): Client => {
        const bothWaysMs = between(latencyMs / 5, 2 * latencyMs, random);
        const workMs = between(longestWorkMs / 2, longestWorkMs, random);
        return (retryAfterMs, refusals) =>
          bothWaysMs() + (refusals === 0 ? workMs() : retryAfterMs);
      };
      const length = Math.min(Math.max(limits.perMinute, 60), 1_000);
      const workers = Array.from({ length }, worker);
      expect(run(limits, workers, 25 * HOUR_MS).banned).toBe(false);
    }),
    { numRuns: 8 },
  );
});
