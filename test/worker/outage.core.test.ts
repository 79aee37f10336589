import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Outage } from "../../src/worker/outage.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.restoreAllMocks().useRealTimers());

const QUIET_MS = 10_000;
const STEPS = ["failed", "failed", "answered", 1, 600, QUIET_MS - 1, QUIET_MS, -QUIET_MS] as const;
const anyStep = fc.constantFrom(...STEPS);

test("in any history, an outage begins with its first failure and cause, and ends with a success after ten seconds without failures, of which it says the number and the seconds", () => {
  const property = fc.property(fc.array(anyStep, { maxLength: 30, size: "max" }), (steps) => {
    const logged = vi.spyOn(console, "warn").mockReturnValue().mockClear();
    const outage = new Outage({ began: "began", ended: "ended" });
    const expected: object[] = [];
    let failures: number[] = [];
    for (const [index, step] of steps.entries()) {
      const quietMs = Date.now() - (failures.at(-1) ?? Infinity);
      // A clock that was set back to before the last failure must not keep an outage alive.
      const isQuiet = failures.length > 0 && (quietMs >= QUIET_MS || quietMs < 0);
      if (typeof step === "number") vi.setSystemTime(Date.now() + step);
      else if (step === "failed") {
        outage.failed({ keyId: `key_${index}`, error: "cause" });
        if (failures.push(Date.now()) > 1) continue;
        expected.push({ event: "began", keyId: `key_${index}`, error: "cause" });
      } else {
        outage.answered();
        if (!isQuiet) continue;
        const seconds = Math.round((failures.at(-1)! - failures[0]!) / 1_000) + 0;
        expected.push({ event: "ended", failures: failures.length, seconds });
        failures = [];
      }
    }
    expect(logged.mock.calls.map(([line]) => JSON.parse(String(line)))).toStrictEqual(expected);
  });
  fc.assert(property);
});
