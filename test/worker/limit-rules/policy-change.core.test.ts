import { describe, expect, test } from "vitest";
import {
  DEFAULT_BANS,
  DAY_MS,
  keyPolicy,
  SimulatedLimiter,
  START_MS,
} from "./simulated-limiter.ts";

const free = keyPolicy(60, 1_000);
const pro = { ...keyPolicy(300, 10_000), revision: 2 };

describe("a plan that changes inside a window (docs/limits.md, Windows)", () => {
  test("keeps the count and applies the new, higher limit", () => {
    const limiter = new SimulatedLimiter(free);
    limiter.requests(61);
    limiter.policy = pro;
    expect(limiter.request()).toMatchObject({
      admitted: true,
      minute: { limit: 300, remaining: 239, endsMs: START_MS + 60_000 },
      day: { limit: 10_000, remaining: 9_939, endsMs: START_MS + DAY_MS },
    });
  });

  test("applies the new, lower limit, and the number of remaining requests is never negative", () => {
    const limiter = new SimulatedLimiter(pro);
    limiter.requests(100);
    limiter.policy = { ...free, revision: 3 };
    expect(limiter.request()).toMatchObject({
      admitted: false,
      minute: { limit: 60, remaining: 0 },
      day: { limit: 1_000, remaining: 900 },
      retryAtMs: START_MS + 60_000,
    });
  });

  test("applies at the same revision too, because a deployment can change the limits of a plan", () => {
    const limiter = new SimulatedLimiter(free);
    limiter.requests(61);
    limiter.policy = { ...pro, revision: free.revision };
    expect(limiter.request()).toMatchObject({ admitted: true, minute: { limit: 300 } });
    limiter.policy = free;
    expect(limiter.request()).toMatchObject({ admitted: false, minute: { limit: 60 } });
  });

  test("is not undone if a policy with an older revision arrives late", () => {
    const limiter = new SimulatedLimiter(pro);
    limiter.requests(60);
    limiter.policy = free;
    expect(limiter.request()).toMatchObject({ admitted: true, minute: { limit: 300 } });
    expect(limiter.peek().day.limit).toBe(10_000);
    expect(limiter.state?.revision).toBe(2);
  });

  test("ends neither a ban nor the wait", () => {
    const limiter = new SimulatedLimiter(free);
    limiter.requests(61);
    limiter.advance(10_000).requests(59);
    limiter.policy = { ...keyPolicy(10, 1_000), revision: 2 };
    expect(limiter.request().banned).toBe(true);
    limiter.policy = { ...pro, revision: 3 };
    expect(limiter.request()).toMatchObject({ admitted: false, banned: true });
  });
});

describe("a reset by the operator (docs/limits.md, Bans)", () => {
  const bannedTwice = () => {
    const limiter = new SimulatedLimiter(keyPolicy(1, 10), { ...DEFAULT_BANS, minStrikes: 3 });
    limiter.requests(2);
    limiter.advance(10_000).requests(3);
    limiter.advance(60_000).requests(2);
    limiter.advance(10_000).requests(3);
    expect(limiter.state?.ban?.number).toBe(2);
    return limiter;
  };

  test("empties both windows and lifts the ban", () => {
    const limiter = bannedTwice();
    limiter.policy = { ...limiter.policy, resets: 1 };
    expect(limiter.request()).toMatchObject({
      admitted: true,
      minute: { remaining: 0, endsMs: limiter.nowMs + 60_000 },
      day: { remaining: 9, endsMs: limiter.nowMs + DAY_MS },
    });
  });

  test("forgets earlier bans: the next ban is as long as a first ban", () => {
    const limiter = bannedTwice();
    limiter.policy = { ...limiter.policy, resets: 1 };
    limiter.requests(2);
    const last = limiter.advance(10_000).requests(3).at(-1);
    expect(last).toMatchObject({ banned: true, retryAtMs: limiter.nowMs + 60_000 });
  });

  test("takes effect only once, and a request with an older policy does not undo the reset", () => {
    const limiter = bannedTwice();
    const before = limiter.policy;
    limiter.policy = { ...before, resets: 1 };
    limiter.requests(1);
    limiter.policy = before;
    expect(limiter.request()).toMatchObject({ admitted: false, banned: false });
    limiter.policy = { ...before, resets: 1 };
    expect(limiter.request()).toMatchObject({ admitted: false, minute: { remaining: 0 } });
    expect(limiter.state?.resets).toBe(1);
  });
});
