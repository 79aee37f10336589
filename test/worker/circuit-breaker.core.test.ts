import { expect, test } from "vitest";
import { CircuitBreaker } from "../../src/worker/circuit-breaker.ts";

const NOW_MS = 1_800_000_000_000;

test("after a failure, a circuit breaker allows one probe a second until a call succeeds", () => {
  const breaker = new CircuitBreaker({ size: 100, probeMs: 2_000 });
  const allowed = (...timesMs: number[]) =>
    timesMs.filter((ms) => breaker.allows("a", NOW_MS + ms));
  expect(allowed(0, 1)).toStrictEqual([0, 1]);
  for (const name of ["a", "c", "d"]) breaker.failed(name, NOW_MS);
  breaker.failed("a", NOW_MS + 500); // A call from before the failure does not lengthen the pause.
  expect(breaker.allows("b", NOW_MS)).toBe(true);
  expect(allowed(500, 999, 1_000, 1_000, 2_999)).toStrictEqual([1_000]);
  // The probe at 1,000 ms reports no outcome. The probe at 3,000 ms fails 700 ms later.
  expect(allowed(3_000)).toStrictEqual([3_000]);
  breaker.failed("a", NOW_MS + 3_700);
  expect(allowed(4_699, 4_700, 4_701)).toStrictEqual([4_700]);
  breaker.failed("b", NOW_MS + 4_701);
  breaker.succeeded("a");
  expect(breaker.allows("b", NOW_MS + 4_702)).toBe(false);
  expect(allowed(4_701, 4_702)).toStrictEqual([4_701, 4_702]);
  // If the clock is set back to before the last failure, the pause is over.
  breaker.failed("a", NOW_MS - 10);
  breaker.failed("a", NOW_MS);
  expect(allowed(-1)).toStrictEqual([-1]);
});
