import { expect, test } from "vitest";
import { RefusalMemory } from "../../../src/worker/limiter/refusal-memory.ts";
import { keyPolicy } from "../../rules/limits/simulated-limiter.ts";

// What an isolate repeats, and for how long, is an invariant of limiter.simulation.test.ts.

const POLICY = keyPolicy(60, 1_000);

/** Returns a memory with a refusal that lasts 60 seconds. `left` more strikes lead to a ban. */
function refusedFor(left: number): RefusalMemory {
  const memory = new RefusalMemory();
  const window = { limit: 60, remaining: 0, endsMs: 60_000 };
  const quota = { nowMs: 0, minute: window, day: window, retryAtMs: 60_000, banned: false };
  const strikes = { waitedSinceMs: 0, countFromMs: 0, left };
  const decision = { ...quota, admitted: false, standsUntilMs: 60_000, strikes };
  memory.learn({ decision, policy: POLICY, askedMs: 0, answeredMs: 0 });
  return memory;
}

test("half of the strikes that are left to a ban are reported, at most 50", () => {
  for (const [left, reported] of [
    [1_000, 50],
    [60, 30],
    [7, 4],
  ] as const) {
    const memory = refusedFor(left);
    for (let n = 1; n < reported; n++) expect(memory.repeat(0, POLICY)).not.toBeNull();
    expect(memory.repeat(0, POLICY)).toBeNull();
    expect(memory.takeReport(0)).toMatchObject({ refusals: reported - 1 });
  }
});

test("fewer strikes are reported 3 seconds after the oldest, and then counted from 0", () => {
  const memory = refusedFor(1_000);
  for (const [beganMs, agesMs] of [
    [100, [0, 2_999]],
    [10_000, [0]],
  ] as const) {
    for (const ageMs of agesMs) expect(memory.repeat(beganMs + ageMs, POLICY)).not.toBeNull();
    expect(memory.repeat(beganMs + 3_000, POLICY)).toBeNull();
    const { length: strikes } = agesMs;
    const wait = { ageMs: beganMs + 3_000, strikes, oldestStrikeAgeMs: 3_000 };
    expect(memory.takeReport(beganMs + 3_000)).toEqual({ refusals: strikes, wait });
  }
});
