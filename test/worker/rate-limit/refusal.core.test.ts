import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { retryAfterSeconds } from "../../../src/worker/limits/headers.ts";
import { Refusal } from "../../../src/worker/rate-limit/refusal.ts";
import {
  HOUR_MS,
  keyPolicy,
  MINUTE_MS,
  SimulatedLimiter,
  START_MS,
} from "../limits/simulated-limiter.ts";

/**
 * Creates a refusal because of a full minute window. The call to the Durable Object took 100 ms in
 * each direction. The isolate's clock is `skewMs` ahead of the Durable Object's clock.
 */
function remembered({ skewMs = 0, bans = true } = {}) {
  const limiter = new SimulatedLimiter({ ...keyPolicy(60, 1_000), bans });
  limiter.requests(60);
  limiter.at(1_000);
  const decision = limiter.request();
  const isolateMs = (objectOffsetMs: number) => START_MS + objectOffsetMs + skewMs;
  const refusal = new Refusal(decision, limiter.policy, isolateMs(900), isolateMs(1_100));
  return { limiter, refusal, isolateMs };
}

describe("a remembered refusal applies (docs/limits.md, When parts fail)", () => {
  test.for([0, -HOUR_MS, HOUR_MS])(
    "only until the Durable Object would admit a request, with clocks that differ by %i ms",
    (skewMs) => {
      const { limiter, refusal, isolateMs } = remembered({ skewMs });
      expect(refusal.standsAt(isolateMs(1_100), limiter.policy)).toBe(true);
      expect(refusal.standsAt(isolateMs(MINUTE_MS - 101), limiter.policy)).toBe(true);
      expect(refusal.standsAt(isolateMs(MINUTE_MS), limiter.policy)).toBe(false);
    },
  );

  test("neither to a changed plan, nor after a reset, nor if the clock was set back", () => {
    const { limiter, refusal, isolateMs } = remembered();
    const nowMs = isolateMs(2_000);
    expect(refusal.standsAt(nowMs, { ...limiter.policy, revision: 2 })).toBe(false);
    expect(refusal.standsAt(nowMs, { ...limiter.policy, resets: 1 })).toBe(false);
    expect(refusal.standsAt(isolateMs(1_099), limiter.policy)).toBe(false);
  });

  test("with a Retry-After after which the next request is admitted, whenever it is repeated", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1_100, max: MINUTE_MS }),
        fc.integer({ min: -HOUR_MS, max: HOUR_MS }),
        (offsetMs, skewMs) => {
          const { limiter, refusal, isolateMs } = remembered({ skewMs, bans: false });
          if (!refusal.standsAt(isolateMs(offsetMs), limiter.policy)) return;
          const repeated = refusal.repeat(isolateMs(offsetMs));
          expect(repeated?.admitted).toBe(false);
          limiter.at(offsetMs + retryAfterSeconds(repeated!) * 1_000);
          expect(limiter.request().admitted).toBe(true);
        },
      ),
    );
  });
});

describe("refusals from memory still lead to a ban (docs/limits.md, Bans)", () => {
  test("of the refusals within the grace of 10 seconds, only the first is reported", () => {
    const { refusal, isolateMs } = remembered();
    for (let n = 0; n < 500; n++) expect(refusal.repeat(isolateMs(10_999))).not.toBeNull();
    expect(refusal.takeUnreported(isolateMs(11_000)).agesMs).toEqual([9_900]);
  });

  test("the isolate reports refusals once half the remaining strikes are reached, each refusal once and with its age", () => {
    const { refusal, isolateMs } = remembered();
    const repeats = Array.from({ length: 30 }, (_, n) => refusal.repeat(isolateMs(11_200 + n)));
    expect(repeats.indexOf(null)).toBe(29);
    const { agesMs } = refusal.takeUnreported(isolateMs(12_000));
    expect(agesMs).toEqual([10_900, ...Array.from({ length: 29 }, (_, n) => 800 - n)]);
    expect(refusal.takeUnreported(isolateMs(12_000)).agesMs).toEqual([10_900]);
  });

  test("an address has nothing to report, however often it is refused", () => {
    const { refusal, isolateMs } = remembered({ bans: false });
    for (let n = 0; n < 500; n++) expect(refusal.repeat(isolateMs(10_000))).not.toBeNull();
    expect(refusal.takeUnreported(isolateMs(10_000)).agesMs).toEqual([]);
  });
});

describe("the number of refusals from memory", () => {
  test("is reported once, without requests that the Durable Object may have counted", () => {
    const { refusal, isolateMs } = remembered();
    for (let n = 0; n < 7; n++) refusal.repeat(isolateMs(2_000));
    for (let n = 0; n < 5; n++) refusal.repeat(isolateMs(11_200));
    refusal.decisionAt(isolateMs(11_300));
    expect(refusal.takeUnreported(isolateMs(12_000))).toMatchObject({ count: 12 });
    expect(refusal.takeUnreported(isolateMs(12_000))).toMatchObject({ count: 0 });
  });

  test("is kept with the strikes after the refusal has expired", () => {
    const { refusal, isolateMs } = remembered();
    for (let n = 0; n < 9; n++) refusal.repeat(isolateMs(11_200));
    const { agesMs, count } = refusal.takeUnreported(isolateMs(2 * MINUTE_MS));
    expect(agesMs).toEqual([118_900, ...Array<number>(9).fill(2 * MINUTE_MS - 11_200)]);
    expect(count).toBe(9);
  });
});
