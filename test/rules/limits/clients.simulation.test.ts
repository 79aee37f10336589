import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { strikesToBan } from "../../../src/rules/limits/strikes.ts";
import { PLAN_LIMITS } from "../../../src/rules/limits/plans.ts";
import { DEFAULT_BANS, keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";
import {
  backsOff,
  type Draw,
  loops,
  retriesLikeTheClient,
  run,
  seededRandom,
  waitsForRetryAfter,
} from "./traffic.ts";
import { HOUR_MS, MINUTE_MS } from "../../support/clock.ts";

const { free, business } = PLAN_LIMITS;

/** A limit per day that never refuses a request. */
const ANY_DAY = 1_000_000_000;

/** The default number of retries of the client package. */
const CLIENT_RETRIES = 5;

const limiterOf = ({ perMinute, perDay }: { perMinute: number; perDay: number }) =>
  new SimulatedLimiter(keyPolicy(perMinute, perDay));

const between =
  ([minMs, maxMs]: readonly [number, number], random: Draw): Draw =>
  () =>
    Math.round(minMs + random() * (maxMs - minMs));

function fleet(size: number, client: (random: Draw) => ReturnType<typeof loops>, seed = 1) {
  const random = seededRandom(seed);
  return Array.from({ length: size }, () => client(random));
}

const jitters = (random: Draw) =>
  waitsForRetryAfter({
    latencyMs: between([10, 510], random),
    jitterMs: between([0, 10_000], random),
    startMs: random() * 10_000,
  });

describe("clients that wait for Retry-After are never banned (docs/limits.md, Bans)", () => {
  test.for([
    [70, free, 20 * MINUTE_MS],
    [180, free, 20 * MINUTE_MS],
    [400, free, 20 * MINUTE_MS],
    [3_000, business, 4 * MINUTE_MS],
  ] as const)(
    "a fleet of %i that jitters by up to 10 seconds on %j",
    ([size, { perMinute }, durationMs]) => {
      const limiter = limiterOf({ perMinute, perDay: ANY_DAY });
      const { bannedAfterMs, refused } = run(limiter, fleet(size, jitters), durationMs);
      expect(refused).toBeGreaterThan(size);
      expect(bannedAfterMs).toBeNull();
      if (size !== 180) return;
      const strict = limiterOf({ perMinute, perDay: ANY_DAY });
      strict.bans = { ...strict.bans, graceMs: 2_000 };
      expect(run(strict, fleet(size, jitters), durationMs).bannedAfterMs).not.toBeNull();
    },
  );

  test("a fleet of 180 that retries like the client package", () => {
    vi.spyOn(Math, "random").mockImplementation(seededRandom(1));
    const clients = fleet(180, (random) =>
      retriesLikeTheClient(CLIENT_RETRIES, between([10, 510], random)),
    );
    const limiter = limiterOf({ ...free, perDay: ANY_DAY });
    expect(run(limiter, clients, 20 * MINUTE_MS).bannedAfterMs).toBeNull();
  });

  test("a fleet with as many workers as strikes lead to a ban, with any limits and any latency", () => {
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
          waitsForRetryAfter({
            latencyMs: between([latencyMs / 10, latencyMs], random),
            workMs: between([workMs / 2, workMs], random),
          });
        const workers = fleet(strikesToBan(DEFAULT_BANS, limits.perMinute), worker, seed);
        expect(run(limiterOf(limits), workers, 25 * HOUR_MS).bannedAfterMs).toBeNull();
      }),
      { numRuns: 12 },
    );
  });
});

describe("a client that doubles its wait is never banned (docs/limits.md, Bans)", () => {
  test.for([
    [100, 5_000, false],
    [100, 5_000, true],
    [1_000, 60_000, true],
  ] as const)("from %d ms to %d ms, full jitter: %s", ([firstMs, capMs, jitter]) => {
    const slow = [60, ANY_DAY].map((perDay) => ({ perMinute: 1, perDay }));
    for (const limits of [free, { ...free, perDay: 60 }, ...slow]) {
      const client = backsOff({ firstMs, capMs, jitter, paceMs: 20 }, seededRandom(1));
      const { bannedAfterMs, refused } = run(limiterOf(limits), [client], 3 * HOUR_MS);
      expect(bannedAfterMs).toBeNull();
      expect(refused).toBeGreaterThan(100);
    }
  });
});

describe("a loop of requests with a Free key (docs/limits.md, Bans)", () => {
  test("is banned after about 50 seconds at 3 requests a second, and sooner at higher rates", () => {
    let latestMs = 51_000;
    for (const rate of [3, 3.5, 5, 60, 1_000]) {
      const { admitted, bannedAfterMs } = run(limiterOf(free), [loops(rate)], MINUTE_MS);
      expect(admitted).toBe(60);
      expect(bannedAfterMs).toBeLessThan(latestMs);
      if (rate === 3) expect(bannedAfterMs).toBeGreaterThan(49_000);
      latestMs = bannedAfterMs!;
    }
  });

  test("is banned within the minute window that it opens, however old an earlier window is", () => {
    for (let openedEarlierMs = 0; openedEarlierMs < MINUTE_MS; openedEarlierMs += 2_900) {
      const limiter = limiterOf(free);
      limiter.request();
      limiter.advance(openedEarlierMs);
      const { bannedAfterMs } = run(limiter, [loops(3)], 2 * MINUTE_MS);
      expect(bannedAfterMs).toBeLessThan(MINUTE_MS - openedEarlierMs + MINUTE_MS);
    }
  });

  test("is not banned at 1.5 requests a second, whose refusals are fewer than the limit", () => {
    const limiter = limiterOf({ ...free, perDay: ANY_DAY });
    expect(run(limiter, [loops(1.5)], HOUR_MS).bannedAfterMs).toBeNull();
  });
});
