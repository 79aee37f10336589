import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type BanMode, banAt } from "../../../src/worker/limit-rules/bans.ts";
import {
  decide,
  type Decision,
  type LimiterState,
} from "../../../src/worker/limit-rules/decision.ts";
import { readState, toStored } from "../../../src/worker/limiter/stored-state.ts";
import { anyBanPolicy, anyHistory, anyLimits, play } from "../limit-rules/histories.ts";
import {
  DEFAULT_BANS,
  keyPolicy,
  SimulatedLimiter,
  START_MS,
} from "../limit-rules/simulated-limiter.ts";

/** A client that sends 10 requests a second with a key that has a limit of one request a day. */
class Loop {
  readonly #policy = keyPolicy(60, 1);
  mode: BanMode;
  state: LimiterState | null = null;
  bans = 0;
  strikes = 0;
  nowMs = START_MS;

  constructor(mode: BanMode) {
    this.mode = mode;
  }

  run(seconds: number): Decision[] {
    const policy = { ...DEFAULT_BANS, mode: this.mode };
    // Start from the stored state, like a Durable Object after an eviction. `wait` contains the
    // strikes and is not stored: keep it, so that strikes add up over several runs.
    const stored = this.state && readState(toStored(this.state)).limiter;
    if (stored !== null) this.state = { ...stored, wait: this.state?.wait ?? null };
    return Array.from({ length: seconds * 10 }, () => {
      const decided = decide(this.state, this.#policy, policy, this.nowMs);
      this.state = decided.state;
      this.bans += decided.bans;
      this.strikes += decided.strikes;
      this.nowMs += 100;
      return decided.decision;
    });
  }
}

const areBanned = (answers: readonly Decision[]) => answers.some(({ banned }) => banned);

describe("BAN_MODE", () => {
  test("log and off lead to the same decisions as for a key that can never be banned", () => {
    fc.assert(
      fc.property(anyLimits, anyBanPolicy, anyHistory, (limits, bans, history) => {
        const answers = (mode: BanMode, isBannable: boolean) => {
          const key = { ...keyPolicy(limits.perMinute, limits.perDay), bans: isBannable };
          const given: Omit<Decision, "strikes">[] = [];
          play(new SimulatedLimiter(key, { ...bans, mode }), history, {
            requested: (_, __, { strikes: _strikes, ...answer }) => given.push(answer),
          });
          return given;
        };
        const neverBanned = answers("on", false);
        expect(answers("log", true)).toEqual(neverBanned);
        expect(answers("off", true)).toEqual(neverBanned);
      }),
    );
  });

  test("log counts each would-be ban once, with the length of a real ban", () => {
    const loops = { on: new Loop("on"), log: new Loop("log") };
    for (let minute = 0; minute < 120; minute += 1) {
      loops.on.run(60);
      expect(areBanned(loops.log.run(60))).toBe(false);
      expect(loops.log).toMatchObject({ bans: loops.on.bans, strikes: loops.on.strikes });
      expect(loops.log.state?.ban?.untilMs).toBe(loops.on.state?.ban?.untilMs);
    }
    expect(loops.log.bans).toBeGreaterThan(4);
  });

  test("log sends no forecast of strikes during a would-be ban", () => {
    const loop = new Loop("log");
    const answers = loop.run(60);
    expect(answers.map(({ strikes }) => strikes === null).indexOf(true, 1)).toBeGreaterThan(60);
    expect(answers.at(-1)).toMatchObject({ banned: false, strikes: null });
  });

  test("off counts no strikes", () => {
    const loop = new Loop("off");
    const answers = loop.run(600);
    expect(loop).toMatchObject({ bans: 0, strikes: 0 });
    expect(answers.every(({ strikes }) => strikes === null)).toBe(true);
  });

  test("changed from log to on begins with a first ban, and enforces no earlier ban", () => {
    const loop = new Loop("log");
    loop.run(300);
    expect(loop.state?.ban?.number).toBeGreaterThan(1);
    loop.mode = "on";
    expect(areBanned(loop.run(1))).toBe(false);
    expect(areBanned(loop.run(60))).toBe(true);
    expect(loop.state?.ban?.number).toBe(1);
  });

  test.for(["log", "off"] as const)("changed from on to %s lifts a ban", (mode) => {
    const loop = new Loop("on");
    expect(areBanned(loop.run(60))).toBe(true);
    loop.mode = mode;
    expect(areBanned(loop.run(60))).toBe(false);
    expect(banAt(loop.state!.ban, { ...DEFAULT_BANS, mode: "off" }, loop.nowMs)).toBeNull();
  });
});
