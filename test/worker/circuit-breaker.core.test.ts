import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CircuitBreaker } from "../../src/worker/circuit-breaker.ts";

const NOW_MS = 1_800_000_000_000;

const newBreaker = () => new CircuitBreaker({ size: 100, probeMs: 2_000 });

describe("a circuit breaker", () => {
  test("allows every call until a failure, and none for a second after it", () => {
    const breaker = newBreaker();
    expect(breaker.allows("a", NOW_MS)).toBe(true);
    breaker.failed("a", NOW_MS);
    expect(breaker.allows("a", NOW_MS)).toBe(false);
    expect(breaker.allows("a", NOW_MS + 999)).toBe(false);
    expect(breaker.allows("b", NOW_MS)).toBe(true);
  });

  test("allows one probe a second after a failure, and every call once the probe succeeds", () => {
    const breaker = newBreaker();
    breaker.failed("a", NOW_MS);
    const later = [1_000, 1_000, 1_500, 2_999].map((ms) => breaker.allows("a", NOW_MS + ms));
    expect(later).toStrictEqual([true, false, false, false]);
    breaker.succeeded("a");
    expect(breaker.allows("a", NOW_MS + 2_999)).toBe(true);
  });

  test("allows no calls for another second after a probe fails", () => {
    const breaker = newBreaker();
    breaker.failed("a", NOW_MS);
    breaker.allows("a", NOW_MS + 1_000);
    breaker.failed("a", NOW_MS + 1_700);
    expect(breaker.allows("a", NOW_MS + 2_699)).toBe(false);
    expect(breaker.allows("a", NOW_MS + 2_700)).toBe(true);
  });

  test("allows another probe if the outcome of a probe is never reported", () => {
    const breaker = newBreaker();
    breaker.failed("a", NOW_MS);
    breaker.allows("a", NOW_MS + 1_000);
    expect(breaker.allows("a", NOW_MS + 3_000)).toBe(true);
  });

  test("ends the pause if the clock is set back", () => {
    const breaker = newBreaker();
    breaker.failed("a", NOW_MS);
    expect(breaker.allows("a", NOW_MS - 1)).toBe(true);
  });

  test("if every call fails, allows the next call after exactly a second", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 700 }), { maxLength: 100 }), (gapsMs) => {
        const breaker = newBreaker();
        let nowMs = NOW_MS;
        let calledMs = -Infinity;
        for (const gapMs of gapsMs) {
          nowMs += gapMs;
          const isAllowed = breaker.allows("a", nowMs);
          expect(isAllowed).toBe(nowMs - calledMs >= 1_000);
          if (!isAllowed) continue;
          breaker.failed("a", nowMs);
          calledMs = nowMs;
        }
      }),
    );
  });
});
