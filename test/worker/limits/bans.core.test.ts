import { describe, expect, test } from "vitest";
import { strikesToBan } from "../../../src/worker/limits/bans.ts";
import { CONTRACT_BANS, DAY_MS, keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";

/** A key with room for one request a day: whatever follows the first is refused. */
function refusing(): SimulatedLimiter {
  const limiter = new SimulatedLimiter(keyPolicy(1_000, 1));
  limiter.request();
  return limiter;
}

const STRIKES = 1_000;
const strikes = (limiter: SimulatedLimiter) => limiter.record?.wait?.strikes;

describe("strikes (contract, section 5)", () => {
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
  ] as const)("a key with %i requests a minute is banned by %i", ([perMinute, expected]) => {
    expect(strikesToBan(CONTRACT_BANS, perMinute)).toBe(expected);
    const limiter = new SimulatedLimiter(keyPolicy(perMinute, 1));
    limiter.requests(2);
    const refused = limiter.advance(10_000).requests(expected);
    expect(refused.map(({ banned }) => banned).indexOf(true)).toBe(expected - 1);
  });

  test("a refusal in the first 10 seconds of a wait is none, one at 10 seconds is", () => {
    const limiter = refusing();
    limiter.requests(500);
    limiter.advance(9_999).requests(500);
    expect(strikes(limiter)).toBe(0);
    limiter.advance(1).request();
    expect(strikes(limiter)).toBe(1);
  });

  test("the request that makes the last strike is already answered as banned", () => {
    const limiter = refusing();
    limiter.request();
    const answers = limiter.advance(10_000).requests(STRIKES);
    expect(answers.at(-2)).toMatchObject({ admitted: false, banned: false });
    expect(answers.at(-1)).toMatchObject({ admitted: false, banned: true });
  });

  test("count for 60 seconds from the first of them", () => {
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

  test("begin again with the next strike after those 60 seconds, not in step with them", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES - 1);
    limiter.advance(90_000).requests(STRIKES - 1);
    expect(limiter.advance(59_999).request().banned).toBe(true);
  });

  test("an admission sets them to nought and the next refusal begins a new wait", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    limiter.advance(10_000).requests(59);
    limiter.at(60_000).requests(60);
    limiter.requests(500);
    expect(strikes(limiter)).toBe(0);
    const refused = limiter.advance(10_000).requests(60);
    expect(refused.map(({ banned }) => banned).indexOf(true)).toBe(59);
  });

  test("a ban sets them to nought", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES);
    const afterwards = limiter.advance(60_000).requests(STRIKES);
    expect(afterwards.map(({ banned }) => banned).indexOf(true)).toBe(STRIKES - 1);
  });

  test("a restart may lose them, and does not lose the ban", () => {
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
