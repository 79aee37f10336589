import fc from "fast-check";
import QuickLRU from "quick-lru";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CircuitBreaker } from "../../../../src/worker/circuit-breaker.ts";
import { Outage } from "../../../../src/worker/outage.ts";
import type { Decision, QuotaPolicy } from "../../../../src/worker/limits/decision.ts";
import { DurableLimiter } from "../../../../src/worker/rate-limit/durable-limiter.ts";
import { retryAfterSeconds } from "../../../../src/worker/limits/headers.ts";
import { FallbackLimiter } from "../../../../src/worker/rate-limit/fallback-limiter.ts";
import { RequestLimiter } from "../../../../src/worker/rate-limit/request-limiter.ts";
import { RememberingLimiter } from "../../../../src/worker/rate-limit/remembering-limiter.ts";
import { DEFAULT_BANS, keyPolicy, START_MS } from "../../limits/simulated-limiter.ts";
import { type Fate, ScheduledObject } from "./scheduled-object.ts";

const TIMEOUT_MS = 2_000;
const ISOLATES = 3;

/** The number of microtasks to await, so that all pending promise callbacks have run. */
const MICROTASKS = 30;

const anyFate = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Fate>("arrives") },
  fc.constantFrom<Fate>("never arrives", "answer is lost", "breaks", "overloaded", "killed"),
);

const anyRun = fc.record({
  limit: fc.integer({ min: 1, max: 20 }),
  fates: fc.array(anyFate, { maxLength: 30, size: "max" }),
  requests: fc.array(fc.nat({ max: ISOLATES - 1 }), { minLength: 1, maxLength: 15 }),
});

/** The result of one request; `decision` is `null` if the limiter was overloaded. */
interface Ended {
  readonly isolate: number;
  readonly usedFallback: boolean;
  readonly decision: Decision | null;
}

/** Starts an isolate. Returns a function that creates the limiter of one request. */
function startIsolate(object: ScheduledObject): () => RequestLimiter {
  const objects = { getByName: () => object } as unknown as Cloudflare.Env["RATE_LIMITER"];
  const breaker = new CircuitBreaker({ size: 10, probeMs: TIMEOUT_MS });
  const durable = new DurableLimiter(objects, TIMEOUT_MS, breaker);
  const remembering = new RememberingLimiter(durable, new QuickLRU({ maxSize: 10 }));
  const fallback = {
    limiter: new FallbackLimiter(DEFAULT_BANS, 10),
    outage: new Outage({ began: "insurance_limiter_on", ended: "insurance_limiter_off" }),
    overload: new Outage({ began: "limiter_overloaded", ended: "limiter_not_overloaded" }),
  };
  return () => new RequestLimiter(remembering, fallback, "schedule");
}

/**
 * A simulation of several isolates that call one Durable Object. The scheduler determines the order
 * of events.
 */
class Schedule {
  readonly object: ScheduledObject;
  readonly ended: Ended[] = [];
  readonly #scheduler: fc.Scheduler;
  readonly #policy: QuotaPolicy;
  readonly #isolates: readonly (() => RequestLimiter)[];

  constructor(scheduler: fc.Scheduler, limit: number, fates: readonly Fate[]) {
    this.#scheduler = scheduler;
    this.#policy = keyPolicy(limit, 1_000);
    this.object = new ScheduledObject(scheduler, DEFAULT_BANS, fates);
    this.#isolates = Array.from({ length: ISOLATES }, () => startIsolate(this.object));
  }

  async request(isolate: number): Promise<Ended> {
    const limiter = this.#isolates[isolate]!();
    const decision = await limiter
      .admit({ name: "key:scheduled", ...this.#policy })
      .catch((error: unknown) => {
        if (limiter.isOverloaded) return null;
        throw error;
      });
    const ended = { isolate, usedFallback: limiter.usedFallback, decision };
    this.ended.push(ended);
    return ended;
  }

  /**
   * Runs scheduled events until all requests have ended. Advances the clock only when no event is
   * left.
   */
  async drain(requests: readonly Promise<unknown>[]): Promise<void> {
    const state = { isDone: false };
    const all = Promise.all(requests).finally(() => (state.isDone = true));
    while (!state.isDone) {
      for (let n = 0; n < MICROTASKS; n++) await Promise.resolve();
      if (this.#scheduler.count() > 0) await this.#scheduler.waitNext(1);
      else await vi.advanceTimersToNextTimerAsync();
    }
    await all;
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: START_MS });
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  vi.spyOn(console, "warn").mockReturnValue();
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("isolates and a Durable Object, with events in any order, lost calls, restarts and overload", () => {
  test("never admit too many requests, never lose a count, and count no request twice", async () => {
    const seen = { admitted: 0, fallback: 0, overloaded: 0 };
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), anyRun, async (scheduler, { limit, fates, requests }) => {
        vi.setSystemTime(START_MS);
        const schedule = new Schedule(scheduler, limit, fates);
        await schedule.drain(requests.map((isolate) => schedule.request(isolate)));
        const { ended, object } = schedule;
        const exact = ended.filter(
          ({ usedFallback, decision }) => !usedFallback && decision?.admitted,
        );
        const stored = object.storedLimiter?.minute?.count ?? 0;
        expect(stored).toBeLessThanOrEqual(limit);
        expect(stored).toBeGreaterThanOrEqual(exact.length);
        // A request whose response was lost may have been counted, but at most once.
        expect(stored).toBeLessThanOrEqual(Math.min(object.admitted.size, requests.length));
        const byFallback = Map.groupBy(
          ended.filter(({ usedFallback, decision }) => usedFallback && decision?.admitted),
          ({ isolate }) => isolate,
        );
        for (const admitted of byFallback.values()) {
          expect(admitted.length).toBeLessThanOrEqual(limit);
        }
        seen.admitted += exact.length;
        seen.fallback += ended.filter(({ usedFallback }) => usedFallback).length;
        seen.overloaded += ended.filter(({ decision }) => decision === null).length;
      }),
      { numRuns: 500 },
    );
    expect(Math.min(seen.admitted, seen.fallback, seen.overloaded)).toBeGreaterThan(10);
  });

  test("send a Retry-After after which the next request is admitted", async () => {
    let waited = 0;
    const anyAsked = fc.nat({ max: ISOLATES - 1 });
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), anyRun, anyAsked, async (scheduler, run, asked) => {
        vi.setSystemTime(START_MS);
        const schedule = new Schedule(scheduler, run.limit, run.fates);
        await schedule.drain(run.requests.map((isolate) => schedule.request(isolate)));
        const refused = schedule.ended.filter(
          ({ usedFallback, decision }) => !usedFallback && decision?.admitted === false,
        );
        const { decision } = refused.at(-1) ?? { decision: null };
        if (decision === null) return;
        waited += 1;
        vi.setSystemTime(decision.nowMs + retryAfterSeconds(decision) * 1_000);
        // This request's call to the Durable Object may fail: `run.fates` can have outcomes that no
        // call has used yet.
        const request = schedule.request(asked);
        await schedule.drain([request]);
        const next = await request;
        if (!next.usedFallback && next.decision !== null) {
          expect(next.decision.admitted).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
    expect(waited).toBeGreaterThan(50);
  });
});
