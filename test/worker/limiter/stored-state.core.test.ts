import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readState, toStored } from "../../../src/worker/limiter/stored-state.ts";
import { anyBanPolicy, anyHistory, anyLimits, play } from "../limit-rules/histories.ts";
import { keyPolicy, SimulatedLimiter } from "../limit-rules/simulated-limiter.ts";

const read = (row: unknown) => readState(row).limiter;

function bannedState() {
  const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
  limiter.requests(61);
  limiter.advance(10_000).requests(60);
  return limiter.state!;
}

describe("the stored limiter state (docs/limits.md, Windows and Bans)", () => {
  test("contains everything that must survive a restart, but not the wait", () => {
    const state = bannedState();
    expect(state.ban).not.toBeNull();
    expect(toStored(state)).not.toHaveProperty("wait");
    expect(read(structuredClone(toStored(state)))).toEqual({ ...state, wait: null });
  });

  test("is parsed to the same state after any history", () => {
    fc.assert(
      fc.property(anyLimits, anyBanPolicy, anyHistory, (limits, banPolicy, history) => {
        const limiter = new SimulatedLimiter(keyPolicy(limits.perMinute, limits.perDay), banPolicy);
        limiter.request();
        play(limiter, history);
        const state = limiter.state!;
        expect(read(structuredClone(toStored(state)))).toEqual({
          ...state,
          wait: null,
        });
      }),
    );
  });

  test("is read even if it has fields of a later version", () => {
    const state = bannedState();
    const later = {
      ...toStored(state),
      version: 2,
      hour: { openedMs: 1, count: 1 },
      ban: { ...state.ban, reason: "hammering" },
    };
    expect(read(later)).toEqual({ ...state, wait: null });
  });

  test.for([
    undefined,
    null,
    0,
    "record",
    [],
    {},
    { ...toStored(bannedState()), limits: undefined },
    { ...toStored(bannedState()), limits: { perMinute: "60", perDay: 1_000 } },
    { ...toStored(bannedState()), minute: { openedMs: Number.NaN, count: 1 } },
    { ...toStored(bannedState()), minute: { openedMs: 1, count: -1 } },
    { ...toStored(bannedState()), day: { openedMs: 1, count: 1.5 } },
    { ...toStored(bannedState()), day: undefined },
    { ...toStored(bannedState()), ban: { untilMs: "tomorrow", number: 1 } },
    { ...toStored(bannedState()), revision: -1 },
  ])("is null if it cannot be read: %j", (stored) => {
    expect(read(stored)).toBeNull();
  });
});
