import { expect, test } from "vitest";
import { RefusalMemory } from "../../../src/worker/limiter/refusal-memory.ts";
import { keyPolicy } from "../limit-rules/simulated-limiter.ts";

// limiter.simulation.test.ts has limits of few strikes, which are reported before these borders.
test("the strike number 50 is reported, and any strike 3 seconds after the oldest one", () => {
  const policy = keyPolicy(60, 1_000);
  const memory = new RefusalMemory();
  const window = { limit: 60, remaining: 0, endsMs: 60_000 };
  const quota = { nowMs: 0, minute: window, day: window, retryAtMs: 60_000, banned: false };
  const strikes = { waitedSinceMs: 0, countFromMs: 0, left: 1_000 };
  const decision = { ...quota, admitted: false, standsUntilMs: 60_000, strikes };
  memory.learn({ decision, policy, askedMs: 0, answeredMs: 0 });
  for (let strike = 1; strike < 50; strike++) expect(memory.repeat(0, policy)).not.toBeNull();
  expect(memory.repeat(0, policy)).toBeNull();
  expect(memory.takeReport(0)).toMatchObject({ refusals: 49 });
  for (const beganMs of [100, 10_000]) {
    for (const ageMs of [0, 2_999]) {
      expect(memory.repeat(beganMs + ageMs, policy)).not.toBeNull();
    }
    expect(memory.repeat(beganMs + 3_000, policy)).toBeNull();
    const wait = { ageMs: beganMs + 3_000, strikes: 2, oldestStrikeAgeMs: 3_000 };
    expect(memory.takeReport(beganMs + 3_000)).toEqual({ refusals: 2, wait });
  }
});
