import QuickLRU from "quick-lru";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Decision } from "../../../src/worker/limits/decision.ts";
import { decide, type LimiterState } from "../../../src/worker/limits/decision.ts";
import type { DurableLimiter } from "../../../src/worker/rate-limit/durable-limiter.ts";
import type { UnreportedRefusals } from "../../../src/worker/rate-limit/refusal.ts";
import { RememberingLimiter } from "../../../src/worker/rate-limit/remembering-limiter.ts";
import { CONTRACT_BANS, keyPolicy, START_MS } from "../limits/simulated-limiter.ts";

const SUBJECT = { name: "key:one", ...keyPolicy(60, 1_000) };

/** An object whose answers take as long as the test wants, and what it was told. */
class SlowObject {
  told = 0;
  toldStrikes = 0;
  #record: LimiterState | null = null;
  #answers: (() => void)[] = [];

  mayAsk(): boolean {
    return true;
  }

  admit(_: unknown, refused: UnreportedRefusals = { agesMs: [], count: 0 }): Promise<Decision> {
    this.told += refused.count;
    this.toldStrikes += refused.agesMs.length;
    const { record, decision } = decide(this.#record, SUBJECT, CONTRACT_BANS, Date.now());
    this.#record = record;
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

test("who is refused from memory while the object is asked is reported with the next call", async () => {
  const object = new SlowObject();
  const limiter = new RememberingLimiter(
    object as unknown as DurableLimiter,
    new QuickLRU({ maxSize: 10 }),
  );
  const exchange = async () => {
    const decision = limiter.admit(SUBJECT);
    object.answer();
    return decision;
  };
  for (let n = 0; n < 61; n++) await exchange();
  vi.setSystemTime(START_MS + 10_000);
  let fromMemory = 0;
  for (let call = 0; call < 3; call++) {
    const before = object.told;
    // Until the object has to hear of them.
    const asks: Promise<Decision>[] = [];
    while (object.told === before) {
      asks.push(limiter.admit(SUBJECT));
      fromMemory += 1;
    }
    fromMemory -= 1;
    for (let n = 0; n < 5; n++) asks.push(limiter.admit(SUBJECT));
    fromMemory += 5;
    object.answer();
    await Promise.all(asks);
  }
  expect(fromMemory).toBeGreaterThan(50);
  expect(object.told).toBe(fromMemory - 5);
  // Each call also tells when the wait began.
  expect(object.toldStrikes).toBe(object.told + 3);
});
