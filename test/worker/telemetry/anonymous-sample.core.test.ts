import fc from "fast-check";
import { expect, test } from "vitest";
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
