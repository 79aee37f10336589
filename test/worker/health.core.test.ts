import fc, { type Scheduler } from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  type Health,
  HealthCheck,
  type Part,
  PROBE_TIMEOUT_MS,
  REMEMBERED_MS,
} from "../../src/worker/health.ts";

const PARTS: readonly Part[] = ["orders", "keys", "limiter"];

/** The outcome of probing a part of the service. `hang`: the part never responds. */
type End = "answer" | "fail" | "hang";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] }));
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A simulated isolate. The scheduler determines when each probe ends. */
class Isolate {
  readonly probes: Part[] = [];
  readonly failures: Part[] = [];
  readonly #ends: End[];
  readonly #schedule: (label: string) => Promise<void>;
  readonly #health = new HealthCheck();

  constructor(ends: readonly End[], schedule: (label: string) => Promise<void>) {
    this.#ends = [...ends];
    this.#schedule = schedule;
  }

  check(): Promise<Health> {
    return this.#health.check({
      probe: (part) => this.#probe(part),
      failed: (part) => this.failures.push(part),
      waitUntil: () => undefined,
    });
  }

  async #probe(part: Part): Promise<void> {
    this.probes.push(part);
    const end = this.#ends.shift() ?? "answer";
    if (end === "hang") return new Promise(() => undefined);
    await this.#schedule(`${part} ends`);
    if (end === "fail") throw new Error("lost");
  }
}

/**
 * Runs all scheduled events in the scheduler's order until `work` is done. Advances the clock only
 * when no event is left.
 */
async function settle(scheduler: Scheduler, work: Promise<unknown>): Promise<void> {
  let isDone = false;
  void work.finally(() => (isDone = true));
  for (let passedMs = 0; passedMs <= 2 * PROBE_TIMEOUT_MS;) {
    await new Promise((resolve) => setImmediate(resolve));
    if (isDone) return;
    if (scheduler.count() > 0) {
      await scheduler.waitNext(1);
    } else {
      vi.advanceTimersByTime(PROBE_TIMEOUT_MS / 2);
      passedMs += PROBE_TIMEOUT_MS / 2;
    }
  }
  throw new Error("A request waits too long.");
}

const immediate = () => Promise.resolve();

test("concurrent requests share one probe, and their responses state which parts are available", async () => {
  const ends = fc.array(fc.constantFrom<End>("answer", "fail", "hang"), {
    minLength: PARTS.length,
    maxLength: PARTS.length,
  });
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      ends,
      fc.integer({ min: 1, max: 6 }),
      async (scheduler, given, requests) => {
        const isolate = new Isolate(given, (label) => scheduler.schedule(Promise.resolve(), label));
        const answers: Promise<Health>[] = [];
        for (let request = 0; request < requests; request += 1) {
          answers.push(
            scheduler.schedule(Promise.resolve(), "a request").then(() => isolate.check()),
          );
        }
        await settle(scheduler, Promise.all(answers));
        const expected = Object.fromEntries(
          PARTS.map((part, index) => [part, given[index] === "answer" ? "ok" : "unavailable"]),
        );
        for (const answer of answers) expect(await answer).toStrictEqual(expected);
        expect(isolate.probes).toStrictEqual(PARTS);
        expect(isolate.failures.toSorted()).toStrictEqual(
          PARTS.filter((part) => expected[part] === "unavailable").toSorted(),
        );
      },
    ),
  );
});

test("a result is reused for five seconds; after that, the parts are probed again", async () => {
  const isolate = new Isolate(["fail"], immediate);
  const failing = { orders: "unavailable", keys: "ok", limiter: "ok" };
  expect(await isolate.check()).toStrictEqual(failing);
  vi.advanceTimersByTime(REMEMBERED_MS - 1);
  expect(await isolate.check()).toStrictEqual(failing);
  expect(isolate.probes).toHaveLength(PARTS.length);
  vi.advanceTimersByTime(1);
  expect(await isolate.check()).toStrictEqual({ orders: "ok", keys: "ok", limiter: "ok" });
  expect(isolate.probes).toHaveLength(2 * PARTS.length);
});

test("a result is not reused if the clock was set back", async () => {
  const isolate = new Isolate(["fail"], immediate);
  await isolate.check();
  vi.setSystemTime(Date.now() - 1);
  expect((await isolate.check()).orders).toBe("ok");
});

test("a request gets a response even if the request that ran the shared probe was ended", async () => {
  const health = new HealthCheck();
  const request = { failed: () => undefined, waitUntil: () => undefined };
  const realSetTimeout = globalThis.setTimeout;
  // Simulates that the platform ended the first request: its probes never settle and its timers
  // never fire.
  const timers = vi.spyOn(globalThis, "setTimeout").mockReturnValue(0 as never);
  void health.check({ ...request, probe: () => new Promise(() => undefined) });
  timers.mockImplementation(realSetTimeout);
  const answer = health.check({ ...request, probe: () => Promise.resolve() });
  await vi.advanceTimersByTimeAsync(2 * PROBE_TIMEOUT_MS);
  const nothing = { orders: "unavailable", keys: "unavailable", limiter: "unavailable" };
  expect(await answer).toStrictEqual(nothing);
  expect((await health.check({ ...request, probe: () => Promise.resolve() })).orders).toBe("ok");
});
