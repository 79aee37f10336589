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

/** The end of the probe of a part. `hang`: the part does not answer. */
type End = "answer" | "fail" | "hang";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] }));
afterEach(() => void vi.useRealTimers());

/** An isolate whose parts end their probes when the scheduler says so. */
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

/** Lets everything happen, in the order of the scheduler. Time passes when nothing else can. */
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

test("concurrent requests share one probe, and learn which parts answer", async () => {
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

test("an outcome is repeated for five seconds, and then a part is asked again", async () => {
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

test("an outcome from the future is not repeated: the clock went back", async () => {
  const isolate = new Isolate(["fail"], immediate);
  await isolate.check();
  vi.setSystemTime(Date.now() - 1);
  expect((await isolate.check()).orders).toBe("ok");
});

test("a request whose probe was lost with another request is answered all the same", async () => {
  const health = new HealthCheck();
  const request = { failed: () => undefined, waitUntil: () => undefined };
  const realSetTimeout = globalThis.setTimeout;
  // The platform ended the first request: neither its probes nor its timers ever come back.
  const timers = vi.spyOn(globalThis, "setTimeout").mockReturnValue(0 as never);
  void health.check({ ...request, probe: () => new Promise(() => undefined) });
  timers.mockImplementation(realSetTimeout);
  const answer = health.check({ ...request, probe: () => Promise.resolve() });
  await vi.advanceTimersByTimeAsync(2 * PROBE_TIMEOUT_MS);
  const nothing = { orders: "unavailable", keys: "unavailable", limiter: "unavailable" };
  expect(await answer).toStrictEqual(nothing);
  expect((await health.check({ ...request, probe: () => Promise.resolve() })).orders).toBe("ok");
});
