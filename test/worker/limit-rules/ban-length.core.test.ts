import { describe, expect, test } from "vitest";
import {
  DEFAULT_BANS,
  DAY_MS,
  HOUR_MS,
  keyPolicy,
  MINUTE_MS,
  SimulatedLimiter,
} from "./simulated-limiter.ts";

/** Fills the minute window, then sends requests until the key is banned. */
function provokeBan(limiter: SimulatedLimiter): void {
  limiter.requests(limiter.policy.limits.perMinute + 1);
  limiter.advance(DEFAULT_BANS.graceMs).requests(60);
  expect(limiter.peek().banned).toBe(true);
}

const banLengthMs = (limiter: SimulatedLimiter) =>
  (limiter.state?.ban?.untilMs ?? Number.NaN) - limiter.nowMs;

function freeKey(): SimulatedLimiter {
  return new SimulatedLimiter(keyPolicy(60, 1_000_000));
}

describe("the length of a ban (docs/limits.md, Bans)", () => {
  test("is 60 seconds, twice as long each time, and 24 hours at most", () => {
    const limiter = freeKey();
    const lengths = Array.from({ length: 14 }, () => {
      provokeBan(limiter);
      const lengthMs = banLengthMs(limiter);
      limiter.advance(lengthMs);
      return lengthMs / MINUTE_MS;
    });
    expect(lengths).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 1_440, 1_440, 1_440]);
  });

  test("is exact to the millisecond", () => {
    const limiter = freeKey();
    provokeBan(limiter);
    limiter.advance(59_999);
    expect(limiter.request()).toMatchObject({ admitted: false, banned: true });
    limiter.advance(1);
    expect(limiter.request()).toMatchObject({ admitted: true, banned: false });
  });

  test("doubles until 24 hours after the last ban has ended, then starts at 60 seconds again", () => {
    const remembered = freeKey();
    provokeBan(remembered);
    remembered.advance(MINUTE_MS + DAY_MS - DEFAULT_BANS.graceMs - 1);
    provokeBan(remembered);
    expect(banLengthMs(remembered)).toBe(2 * MINUTE_MS);

    const forgotten = freeKey();
    provokeBan(forgotten);
    forgotten.advance(MINUTE_MS + DAY_MS - DEFAULT_BANS.graceMs);
    provokeBan(forgotten);
    expect(banLengthMs(forgotten)).toBe(MINUTE_MS);
  });

  test("starts at 60 seconds again only 24 hours after the end of even the longest ban", () => {
    const limiter = freeKey();
    for (let number = 1; number <= 12; number++) {
      provokeBan(limiter);
      limiter.advance(banLengthMs(limiter));
    }
    limiter.advance(23 * HOUR_MS);
    provokeBan(limiter);
    expect(banLengthMs(limiter)).toBe(DAY_MS);
    limiter.advance(2 * DAY_MS);
    provokeBan(limiter);
    expect(banLengthMs(limiter)).toBe(MINUTE_MS);
  });
});

describe("a banned key (docs/limits.md, Bans)", () => {
  test("is refused until the end of the ban; its requests neither lengthen the ban nor count", () => {
    const limiter = freeKey();
    provokeBan(limiter);
    const endsMs = limiter.nowMs + MINUTE_MS;
    const dayLeft = limiter.peek().day.remaining;
    const { state } = limiter;
    const answers = limiter.requests(10_000, 5);
    expect(answers.every(({ banned, admitted }) => banned && !admitted)).toBe(true);
    expect(answers.every(({ retryAtMs }) => retryAtMs === endsMs)).toBe(true);
    expect(limiter.peek().day.remaining).toBe(dayLeft);
    expect(limiter.state).toBe(state);
  });

  test("is admitted again at the end of a full window that ends later than the ban", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 60));
    provokeBan(limiter);
    const answer = limiter.request();
    expect(answer).toMatchObject({ banned: true, retryAtMs: limiter.at(DAY_MS).nowMs });
    expect(limiter.at(DAY_MS - 1).request().admitted).toBe(false);
    expect(limiter.at(DAY_MS).request().admitted).toBe(true);
  });

  test("is refused by a full window after the ban, until the window ends", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 60));
    provokeBan(limiter);
    limiter.advance(MINUTE_MS);
    const answer = limiter.request();
    expect(answer).toMatchObject({ admitted: false, banned: false });
    expect(answer.retryAtMs).toBe(limiter.at(DAY_MS).nowMs);
  });
});
