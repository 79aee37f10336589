import { describe, expect, test } from "vitest";
import { strikesToBan } from "../../../src/worker/limit-rules/bans.ts";
import { DEFAULT_BANS, DAY_MS, keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";

/**
 * Returns the limiter of a key that may send one request a day and has sent it. So all further
 * requests are refused.
 */
function refusing(): SimulatedLimiter {
  const limiter = new SimulatedLimiter(keyPolicy(1_000, 1));
  limiter.request();
  return limiter;
}

const STRIKES = 1_000;
const strikes = (limiter: SimulatedLimiter) => limiter.state?.wait?.strikes;

describe("strikes (docs/limits.md, Bans)", () => {
  test.for([
    [1, 60],
    [59, 60],
    [60, 60],
    [61, 61],
    [300, 300],
    [999, 999],
    [1_000, 1_000],
    [1_001, 1_000],
    [1_000_000_000, 1_000],
  ] as const)(
    "a key with %i requests a minute is banned after %i strikes",
    ([perMinute, expected]) => {
      expect(strikesToBan(DEFAULT_BANS, perMinute)).toBe(expected);
      const limiter = new SimulatedLimiter(keyPolicy(perMinute, 1));
      limiter.requests(2);
      const refused = limiter.advance(10_000).requests(expected);
      expect(refused.map(({ banned }) => banned).indexOf(true)).toBe(expected - 1);
    },
  );

  test("begin 10 seconds after the start of a wait: earlier refusals are no strikes", () => {
    const limiter = refusing();
    limiter.requests(500);
    limiter.advance(9_999).requests(500);
    expect(strikes(limiter)).toBe(0);
    limiter.advance(1).request();
    expect(strikes(limiter)).toBe(1);
  });

  test("the response to the request with the last strike already says that the key is banned", () => {
    const limiter = refusing();
    limiter.request();
    const answers = limiter.advance(10_000).requests(STRIKES);
    expect(answers.at(-2)).toMatchObject({ admitted: false, banned: false });
    expect(answers.at(-1)).toMatchObject({ admitted: false, banned: true });
  });

  test("lead to a ban only if all of them fall within 60 seconds after the first strike", () => {
    const inTime = refusing();
    inTime.request();
    inTime.advance(10_000).requests(STRIKES - 1);
    expect(inTime.advance(59_999).request().banned).toBe(true);

    const late = refusing();
    late.request();
    late.advance(10_000).requests(STRIKES - 1);
    expect(late.advance(60_000).request().banned).toBe(false);
    expect(strikes(late)).toBe(1);
    expect(late.requests(STRIKES - 1).at(-1)?.banned).toBe(true);
  });

  test("begin a new series of 60 seconds if the first strike is 60 seconds ago", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES - 1);
    limiter.advance(90_000).requests(STRIKES - 1);
    expect(limiter.advance(59_999).request().banned).toBe(true);
  });

  test("are reset to zero by an admission, and the next refusal begins a new wait", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    limiter.advance(10_000).requests(59);
    limiter.at(60_000).requests(60);
    limiter.requests(500);
    expect(strikes(limiter)).toBe(0);
    const refused = limiter.advance(10_000).requests(60);
    expect(refused.map(({ banned }) => banned).indexOf(true)).toBe(59);
  });

  test("are reset to zero by a ban", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES);
    const afterwards = limiter.advance(60_000).requests(STRIKES);
    expect(afterwards.map(({ banned }) => banned).indexOf(true)).toBe(STRIKES - 1);
  });

  test("are lost in a restart, unlike a ban", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES - 1);
    limiter.restart();
    expect(limiter.requests(500).at(-1)?.banned).toBe(false);
    limiter.advance(10_000).requests(STRIKES);
    expect(limiter.restart().request().banned).toBe(true);
    expect(limiter.at(DAY_MS - 1).request().admitted).toBe(false);
  });
});
