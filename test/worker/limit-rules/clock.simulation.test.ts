import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { retryAfterSeconds } from "../../../src/worker/limit-rules/headers.ts";
import { anyBanPolicy, anyLimits } from "./histories.ts";
import {
  DEFAULT_BANS,
  DAY_MS,
  HOUR_MS,
  keyPolicy,
  MINUTE_MS,
  SimulatedLimiter,
} from "./simulated-limiter.ts";

const anyJump = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 12_000 }) },
  fc.integer({ min: -3_000, max: 0 }),
  fc.integer({ min: -3 * DAY_MS, max: 3 * DAY_MS }),
  fc.constantFrom(-DAY_MS, -MINUTE_MS, -1, MINUTE_MS, DAY_MS),
);

describe("a clock that is set back (docs/limits.md, Windows)", () => {
  test.for([50, 5_000, HOUR_MS])(
    "by %i ms: a client that waits for the next Retry-After is admitted",
    (backMs) => {
      const limiter = new SimulatedLimiter(keyPolicy(1, 1_000)).at(backMs);
      limiter.request();
      const refused = limiter.at(0).request();
      limiter.advance(retryAfterSeconds(refused) * 1_000);
      expect(limiter.request().admitted).toBe(true);
    },
  );

  test("to before the day window opened, but not the minute window: Retry-After is exact", () => {
    const limiter = new SimulatedLimiter(keyPolicy(10, 2));
    limiter.request();
    limiter.at(DAY_MS - 30_000).request();
    limiter.at(DAY_MS + 1_000).requests(2);
    const refused = limiter.at(DAY_MS - 4_000).request();
    limiter.advance(retryAfterSeconds(refused) * 1_000);
    expect(limiter.request().admitted).toBe(true);
  });

  test("does not extend a ban that began in the future beyond the length of the longest ban", () => {
    const limiter = new SimulatedLimiter(keyPolicy(1, 1_000)).at(30 * DAY_MS);
    limiter.requests(2);
    limiter.advance(10_000).requests(60);
    expect(limiter.at(0).request().banned).toBe(true);
    expect(limiter.at(DAY_MS).request().banned).toBe(false);
  });

  test("does not empty a full window", () => {
    const limiter = new SimulatedLimiter(keyPolicy(5, 1_000)).at(HOUR_MS);
    limiter.requests(5);
    limiter.at(0);
    expect(limiter.request()).toMatchObject({
      admitted: false,
      minute: { remaining: 0, endsMs: limiter.nowMs + MINUTE_MS },
      day: { remaining: 995, endsMs: limiter.nowMs + DAY_MS },
    });
  });

  test("keeps the remaining requests of a window, which then lasts its full length", () => {
    const limiter = new SimulatedLimiter(keyPolicy(5, 1_000)).at(HOUR_MS);
    limiter.requests(3);
    limiter.at(0);
    expect(limiter.requests(3).map(({ admitted }) => admitted)).toEqual([true, true, false]);
    expect(limiter.at(MINUTE_MS).request()).toMatchObject({
      admitted: true,
      minute: { remaining: 4 },
      day: { remaining: 994 },
    });
  });

  test("restarts the grace of 10 seconds", () => {
    const limiter = new SimulatedLimiter(keyPolicy(1, 1_000)).at(HOUR_MS);
    limiter.requests(2);
    limiter.at(0).requests(500);
    expect(limiter.state?.wait).toMatchObject({ strikes: 0 });
    limiter.at(10_000).request();
    expect(limiter.state?.wait).toMatchObject({ strikes: 1 });
  });

  test("does not extend a series of strikes beyond 60 seconds", () => {
    const limiter = new SimulatedLimiter(keyPolicy(1, 1)).at(HOUR_MS);
    limiter.requests(2);
    limiter.advance(10_000).requests(50);
    limiter.at(0).request();
    limiter.at(MINUTE_MS).request();
    expect(limiter.state?.wait).toMatchObject({ strikes: 1 });
  });

  test("does not reopen a window that has ended when it shortens a ban", () => {
    const bans = { ...DEFAULT_BANS, longestBanMs: MINUTE_MS };
    const limiter = new SimulatedLimiter(keyPolicy(5, 1), bans);
    const openedMs = limiter.nowMs;
    limiter.request();
    limiter.advance(MINUTE_MS + 5_000).request();
    limiter.advance(10_000).requests(60);
    expect(limiter.at(MINUTE_MS + 1_000).request()).toMatchObject({ banned: true });
    expect(limiter.state?.minute).toEqual({ openedMs, count: 1 });
  });

  test("never announces a ban that lasts longer than the longest ban", () => {
    const limiter = new SimulatedLimiter(keyPolicy(1, 1_000)).at(30 * DAY_MS);
    limiter.requests(2);
    limiter.advance(10_000).requests(60);
    limiter.at(0);
    expect(limiter.request()).toMatchObject({
      banned: true,
      retryAtMs: limiter.nowMs + DEFAULT_BANS.longestBanMs,
    });
  });
});

describe("a clock that jumps ahead", () => {
  test("opens new windows and ends the ban, as if the time had passed", () => {
    const limiter = new SimulatedLimiter(keyPolicy(5, 20));
    limiter.requests(6);
    limiter.advance(10_000).requests(60);
    expect(limiter.peek().banned).toBe(true);
    expect(limiter.advance(10 * DAY_MS).request()).toMatchObject({
      admitted: true,
      minute: { remaining: 4 },
      day: { remaining: 19 },
    });
  });

  test("ends a series of strikes", () => {
    const limiter = new SimulatedLimiter(keyPolicy(5, 5));
    limiter.requests(6);
    limiter.advance(10_000).requests(59);
    limiter.advance(HOUR_MS).request();
    expect(limiter.state?.wait).toMatchObject({ strikes: 1 });
  });
});

describe("a clock that jumps at random", () => {
  test("never admits more than the limit in a window, and never asks a client to wait longer than a day", () => {
    fc.assert(
      fc.property(
        anyLimits,
        anyBanPolicy,
        fc.array(fc.tuple(anyJump, fc.integer({ min: 1, max: 6 })), { maxLength: 40, size: "max" }),
        (limits, banPolicy, moves) => {
          const limiter = new SimulatedLimiter(
            keyPolicy(limits.perMinute, limits.perDay),
            banPolicy,
          );
          for (const [jumpMs, times] of moves) {
            for (const decision of limiter.advance(jumpMs).requests(times)) {
              expect(limiter.state?.minute?.count).toBeLessThanOrEqual(limits.perMinute);
              expect(limiter.state?.day?.count).toBeLessThanOrEqual(limits.perDay);
              expect(retryAfterSeconds(decision)).toBeLessThanOrEqual(86_400);
            }
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  test("never admits more than the limit in a window if the clock only jumps back", () => {
    fc.assert(
      fc.property(
        anyLimits,
        fc.array(fc.integer({ min: -DAY_MS, max: 0 }), { maxLength: 60 }),
        ({ perMinute, perDay }, jumps) => {
          const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
          const admitted = jumps.filter((ms) => limiter.advance(ms).request().admitted);
          expect(admitted.length).toBeLessThanOrEqual(Math.min(perMinute, perDay));
        },
      ),
    );
  });
});
