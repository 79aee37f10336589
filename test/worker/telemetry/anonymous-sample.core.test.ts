import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnonymousSample } from "../../../src/worker/telemetry/anonymous-sample.ts";

const MINUTE_MS = 60_000;

/**
 * Simulates requests at these times. For each request, returns how many requests its record
 * represents, or `null` if the request is not recorded.
 */
function sampled(timesMs: readonly number[]): (number | null)[] {
  const sample = new AnonymousSample();
  return timesMs.map((nowMs) => sample.count(nowMs));
}

describe("within a minute", () => {
  test("each of the first ten requests is recorded", () => {
    expect(sampled(Array(10).fill(5_000))).toStrictEqual(Array(10).fill(1));
  });

  test("after the first ten, one in a hundred requests is recorded and represents all hundred", () => {
    const represents = sampled(Array(310).fill(5_000));
    expect(represents.flatMap((count, index) => (count === null ? [] : [[index, count]]))).toEqual([
      ...Array.from({ length: 10 }, (_, index) => [index, 1]),
      [109, 100],
      [209, 100],
      [309, 100],
    ]);
  });
});

test("the first record of the next minute also represents the requests skipped before it", () => {
  const represents = sampled([...Array<number>(50).fill(0), MINUTE_MS, MINUTE_MS]);
  expect(represents.slice(-2)).toStrictEqual([41, 1]);
});

const anyGapMs = fc.oneof(
  { weight: 20, arbitrary: fc.nat(100) },
  { weight: 1, arbitrary: fc.integer({ min: -MINUTE_MS, max: 2 * MINUTE_MS }) },
);

test("no request is counted twice, and fewer than a hundred requests are not counted yet", () => {
  fc.assert(
    fc.property(fc.array(anyGapMs, { maxLength: 2_000, size: "max" }), (gapsMs) => {
      let nowMs = 1_800_000_000_000;
      const represents = sampled(gapsMs.map((gapMs) => (nowMs += gapMs)));
      const counted = represents.reduce<number>((sum, count) => sum + (count ?? 0), 0);
      expect(counted).toBeLessThanOrEqual(gapsMs.length);
      expect(counted).toBeGreaterThan(gapsMs.length - 100);
    }),
  );
});

test("a flood is recorded at most eleven times a minute plus once for every hundred requests", () => {
  const perSecond = 1_000;
  const times = Array.from(
    { length: 120 * perSecond },
    (_, n) => Math.floor(n / perSecond) * 1_000,
  );
  const records = sampled(times).filter((count) => count !== null);
  expect(records.length).toBeLessThanOrEqual(times.length / 100 + 2 * 11);
});
