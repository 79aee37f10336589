import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readLimiterState, toStored } from "../../../src/worker/rate-limit/stored-state.ts";
import { anyBanPolicy, anyHistory, anyLimits, play } from "../limits/histories.ts";
import { keyPolicy, SimulatedLimiter } from "../limits/simulated-limiter.ts";

function bannedRecord() {
  const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
  limiter.requests(61);
  limiter.advance(10_000).requests(60);
  return limiter.record!;
}

describe("the stored record (contract, sections 4 and 5)", () => {
  test("says all that must survive a restart, and not the wait", () => {
    const record = bannedRecord();
    expect(record.ban).not.toBeNull();
    expect(toStored(record)).not.toHaveProperty("wait");
    expect(readLimiterState(structuredClone(toStored(record)))).toEqual({ ...record, wait: null });
  });

  test("comes back the same after any history", () => {
    fc.assert(
      fc.property(anyLimits, anyBanPolicy, anyHistory, (limits, banPolicy, history) => {
        const limiter = new SimulatedLimiter(keyPolicy(limits.perMinute, limits.perDay), banPolicy);
        limiter.request();
        play(limiter, history);
        const record = limiter.record!;
        expect(readLimiterState(structuredClone(toStored(record)))).toEqual({
          ...record,
          wait: null,
        });
      }),
    );
  });

  test("may hold fields of a later version", () => {
    const record = bannedRecord();
    const later = {
      ...toStored(record),
      version: 2,
      hour: { openedMs: 1, count: 1 },
      ban: { ...record.ban, reason: "hammering" },
    };
    expect(readLimiterState(later)).toEqual({ ...record, wait: null });
  });

  test.for([
    undefined,
    null,
    0,
    "record",
    [],
    {},
    { ...toStored(bannedRecord()), limits: undefined },
    { ...toStored(bannedRecord()), limits: { perMinute: "60", perDay: 1_000 } },
    { ...toStored(bannedRecord()), minute: { openedMs: Number.NaN, count: 1 } },
    { ...toStored(bannedRecord()), minute: { openedMs: 1, count: -1 } },
    { ...toStored(bannedRecord()), day: { openedMs: 1, count: 1.5 } },
    { ...toStored(bannedRecord()), day: undefined },
    { ...toStored(bannedRecord()), ban: { untilMs: "tomorrow", number: 1 } },
    { ...toStored(bannedRecord()), revision: -1 },
  ])("that cannot be read is none: %j", (stored) => {
    expect(readLimiterState(stored)).toBeNull();
  });
});
