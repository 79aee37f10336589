import { expect, test } from "vitest";
import { RefusalMemory } from "../../../src/worker/limiter/refusal-memory.ts";
import { keyPolicy } from "../../rules/limits/simulated-limiter.ts";

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

test.each([
  [1_000, 50],
  [60, 30],
  [7, 4],
])("with %i strikes left to a ban, the strike number %i is reported", (left, reported) => {
  const memory = refusedFor(left);
  for (let strike = 1; strike < reported; strike++) expect(memory.repeat(0, POLICY)).not.toBeNull();
  expect(memory.repeat(0, POLICY)).toBeNull();
  expect(memory.takeReport(0)).toMatchObject({ refusals: reported - 1 });
});

test("a refusal is repeated until the millisecond in which it ends, counted from the call", () => {
  for (const [nowMs, repeats] of [
    [59_999, true],
    [60_000, false],
  ] as const) {
    expect(refusedFor(1_000).repeat(nowMs, POLICY) !== null).toBe(repeats);
  }
});

test("one strike or two are reported 3 seconds after the oldest, and then counted from 0", () => {
  const memory = refusedFor(1_000);
  for (const beganMs of [100, 10_000]) {
    for (const ageMs of [0, 2_999]) {
      expect(memory.repeat(beganMs + ageMs, POLICY)).not.toBeNull();
    }
    expect(memory.repeat(beganMs + 3_000, POLICY)).toBeNull();
    const wait = { ageMs: beganMs + 3_000, strikes: 2, oldestStrikeAgeMs: 3_000 };
    expect(memory.takeReport(beganMs + 3_000)).toEqual({ refusals: 2, wait });
  }
  expect(memory.repeat(20_000, POLICY)).not.toBeNull();
  expect(memory.repeat(23_000, POLICY)).toBeNull();
});
