import QuickLRU from "quick-lru";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Decision, decide, type LimiterState } from "../../../src/worker/limits/decision.ts";
import type { DurableLimiter } from "../../../src/worker/rate-limit/durable-limiter.ts";
import type { UnreportedRefusals } from "../../../src/worker/rate-limit/refusal.ts";
import { RememberingLimiter } from "../../../src/worker/rate-limit/remembering-limiter.ts";
import { DEFAULT_BANS, keyPolicy, START_MS } from "../limits/simulated-limiter.ts";

const KEY = { name: "key:one", ...keyPolicy(60, 1_000) };

/**
 * A simulated Durable Object. It responds only when the test calls `answer`, and it counts the
 * refusals that are reported to it.
 */
class SlowObject {
  reported = 0;
  reportedStrikes = 0;
  #state: LimiterState | null = null;
  #answers: (() => void)[] = [];

  mayAsk(): boolean {
    return true;
  }

  admit(_: unknown, refused: UnreportedRefusals = { agesMs: [], count: 0 }): Promise<Decision> {
    this.reported += refused.count;
    this.reportedStrikes += refused.agesMs.length;
    const { state, decision } = decide(this.#state, KEY, DEFAULT_BANS, Date.now());
    this.#state = state;
    return new Promise((resolve) => this.#answers.push(() => resolve(decision)));
  }

  answer(): void {
    for (const answer of this.#answers.splice(0)) answer();
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: START_MS });
});
afterEach(() => {
  vi.useRealTimers();
});

test("a request that is refused from memory during a call is reported with the next call", async () => {
  const object = new SlowObject();
  const limiter = new RememberingLimiter(
    object as unknown as DurableLimiter,
    new QuickLRU({ maxSize: 10 }),
  );
  const exchange = async () => {
    const decision = limiter.admit(KEY);
    object.answer();
    return decision;
  };
  for (let n = 0; n < 61; n++) await exchange();
  vi.setSystemTime(START_MS + 10_000);
  let fromMemory = 0;
  for (let call = 0; call < 3; call++) {
    const before = object.reported;
    // Send requests until the limiter reports refusals to the Durable Object.
    const asks: Promise<Decision>[] = [];
    while (object.reported === before) {
      asks.push(limiter.admit(KEY));
      fromMemory += 1;
    }
    fromMemory -= 1;
    for (let n = 0; n < 5; n++) asks.push(limiter.admit(KEY));
    fromMemory += 5;
    object.answer();
    await Promise.all(asks);
  }
  expect(fromMemory).toBeGreaterThan(50);
  expect(object.reported).toBe(fromMemory - 5);
  // Each of the three calls also reports the age of the first refusal. The Durable Object made that
  // refusal itself, so `reported` does not count it.
  expect(object.reportedStrikes).toBe(object.reported + 3);
});
