import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { strikesToBan } from "../../../src/worker/limit-rules/bans.ts";
import { PLAN_LIMITS } from "../../../src/worker/limit-rules/plans.ts";
import {
  DEFAULT_BANS,
  HOUR_MS,
  keyPolicy,
  MINUTE_MS,
  SimulatedLimiter,
} from "./simulated-limiter.ts";
import { backsOff, type Draw, run, seededRandom, waitsForRetryAfter } from "./traffic.ts";

const { free, pro, business } = PLAN_LIMITS;

/** Keys whose day window never fills, fills within minutes, or fills after more than an hour. */
const KEYS = [
  { key: "Free", ...free },
  { key: "Pro", ...pro },
  { key: "Business", ...business },
  { key: "Enterprise of 1 a minute", perMinute: 1, perDay: 1_000_000_000 },
  { key: "Enterprise of 60 a minute", perMinute: 60, perDay: 1_000_000_000 },
  { key: "Enterprise of 2,000 a minute", perMinute: 2_000, perDay: 5_000 },
];

/**
 * The ranges of a fleet's network latency and of each worker's pause between two requests, in
 * milliseconds.
 */
const WORK = [
  { does: "no work, no latency", latency: [0, 0], work: [0, 0] },
  { does: "no work, latency 10 to 1,500 ms", latency: [10, 1_500], work: [0, 0] },
  { does: "no work, latency 1,500 ms", latency: [1_500, 1_500], work: [0, 0] },
  { does: "work of up to 50 s, latency 10 to 1,500 ms", latency: [10, 1_500], work: [0, 50_000] },
] as const;

const between =
  ([minMs, maxMs]: readonly [number, number], random: Draw): Draw =>
  () =>
    Math.round(minMs + random() * (maxMs - minMs));

describe("clients that wait for Retry-After are never banned (docs/limits.md, Bans)", () => {
  test.for(KEYS)("a single client: $key", ({ perMinute, perDay }) => {
    const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
    const worker = waitsForRetryAfter(
      () => 0,
      () => 0,
    );
    const { bannedAfterMs, refused } = run(limiter, [worker], 30 * HOUR_MS);
    expect(bannedAfterMs).toBeNull();
    expect(refused).toBeGreaterThan(0);
  });

  test.for(KEYS.flatMap((key) => WORK.map((work) => ({ ...key, ...work }))))(
    "a fleet with as many workers as strikes lead to a ban: $key, $does",
    ({ perMinute, perDay, latency, work }) => {
      const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
      const random = seededRandom(1);
      const size = strikesToBan(DEFAULT_BANS, perMinute);
      const workers = Array.from({ length: size }, () =>
        waitsForRetryAfter(between(latency, random), between(work, random)),
      );
      const { admitted, bannedAfterMs } = run(limiter, workers, 15 * MINUTE_MS);
      expect(bannedAfterMs).toBeNull();
      expect(admitted).toBeGreaterThan(0);
    },
  );

  test("a fleet with as many workers as strikes lead to a ban, with any limits and any latency", () => {
    const anyRange = (maxMs: number) =>
      fc
        .tuple(fc.integer({ min: 0, max: maxMs }), fc.integer({ min: 0, max: maxMs }))
        .map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
    fc.assert(
      fc.property(
        fc.record({
          perMinute: fc.integer({ min: 1, max: 90 }),
          perDay: fc.integer({ min: 1, max: 600 }),
          latency: anyRange(1_500),
          work: anyRange(60_000),
          seed: fc.integer(),
        }),
        ({ perMinute, perDay, latency, work, seed }) => {
          const random = seededRandom(seed);
          const workers = Array.from({ length: strikesToBan(DEFAULT_BANS, perMinute) }, () =>
            waitsForRetryAfter(between(latency, random), between(work, random)),
          );
          const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
          expect(run(limiter, workers, 25 * HOUR_MS).bannedAfterMs).toBeNull();
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("a client that doubles its wait is never banned (docs/limits.md, Bans)", () => {
  const BACKOFFS = [100, 1_000].flatMap((firstMs) =>
    [5_000, 60_000].flatMap((capMs) => [false, true].map((jitter) => ({ firstMs, capMs, jitter }))),
  );

  test.for(KEYS.flatMap((key) => BACKOFFS.map((backoff) => ({ ...key, ...backoff }))))(
    "$key, from $firstMs ms to $capMs ms, full jitter: $jitter",
    (row) => {
      const seeds = row.jitter ? [1, 2] : [1];
      for (const seed of seeds) {
        const limiter = new SimulatedLimiter(keyPolicy(row.perMinute, row.perDay));
        const client = backsOff({ ...row, paceMs: 20 }, seededRandom(seed));
        const { bannedAfterMs, refused } = run(limiter, [client], 26 * HOUR_MS);
        expect(bannedAfterMs).toBeNull();
        expect(refused).toBeGreaterThan(100);
      }
    },
  );
});
