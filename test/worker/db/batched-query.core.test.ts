import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { BatchedQuery } from "../../../src/worker/db/batched-query.ts";

const CONCURRENCY = 2;
const TIMEOUT_MS = 100;
const LONGEST_MS = 2 * TIMEOUT_MS;

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] }));
afterEach(() => void vi.useRealTimers());

/** How a query ends. If it hangs or is late, the platform has ended its request. */
type End = "answer" | "fail" | "hang" | "late";

interface Answer {
  /** The number in the database when the query began. */
  readonly held: number;
  readonly keys: readonly number[];
}

/** A simulated database that contains one number. `schedule` determines when each query ends. */
class World {
  held = 0;
  queries = 0;
  /** The queries that are about to end. */
  ending = 0;
  mostRunning = 0;
  readonly kept: Promise<unknown>[] = [];
  readonly failedKeys = new Set<number>();
  readonly #running = new Map<symbol, number>();
  readonly #schedule: () => Promise<void>;
  readonly #ends: End[];
  readonly #batched = new BatchedQuery<number, Answer>({
    concurrency: CONCURRENCY,
    timeoutMs: TIMEOUT_MS,
    late: () => new Error("late"),
  });

  constructor(schedule: () => Promise<void>, ends: readonly End[] = []) {
    this.#schedule = schedule;
    this.#ends = [...ends];
  }

  /** Simulates a request. Fails with "ended" if the platform ends it. */
  read(key: number): Promise<Answer> {
    const ended = Promise.withResolvers<never>();
    const answer = this.#batched.read(
      key,
      (keys) => this.#query(keys, () => ended.reject(new Error("ended"))),
      (promise) => this.kept.push(promise),
    );
    return Promise.race([answer, ended.promise]);
  }

  async #query(keys: readonly number[], endRequest: () => void): Promise<Answer> {
    const answer = { held: this.held, keys: keys.toSorted((one, other) => one - other) };
    const run = Symbol("run");
    this.queries += 1;
    this.#running.set(run, Date.now());
    // A query for which a request has waited in vain no longer counts.
    const isYoung = (startMs: number) => Date.now() - startMs < LONGEST_MS;
    const running = this.#running.values().filter(isYoung).toArray().length;
    this.mostRunning = Math.max(this.mostRunning, running);
    const end = this.#ends.shift() ?? "answer";
    if (end === "hang" || end === "late") endRequest();
    if (end === "hang") return new Promise(() => undefined);
    if (end === "late") await new Promise((resolve) => void setTimeout(resolve, 3 * TIMEOUT_MS));
    this.ending += 1;
    await this.#schedule();
    this.ending -= 1;
    this.#running.delete(run);
    if (end !== "fail") return answer;
    for (const key of keys) this.failedKeys.add(key);
    throw new Error("failed");
  }
}

const idle = () => new Promise((resolve) => void setImmediate(resolve));
const end = fc.oneof(
  { weight: 5, arbitrary: fc.constant<End>("answer") },
  { weight: 2, arbitrary: fc.constantFrom<End>("fail", "hang", "late") },
);

test("each request soon receives a result for its key that was read after the request arrived, and few queries run at a time", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(end, { maxLength: 8, size: "max" }),
      fc.array(fc.constantFrom("ask", "ask", "change", "wait"), { maxLength: 16, size: "max" }),
      async (scheduler, ends, steps) => {
        const schedule = () => scheduler.schedule(Promise.resolve());
        const world = new World(schedule, ends);
        const hasLost = ends.includes("hang") || ends.includes("late");
        let asking = 0;
        const ask = async (key: number) => {
          await schedule();
          const { held: heldThen } = world;
          const beganMs = Date.now();
          asking += 1;
          const { held, keys } = await world.read(key).catch((error: Error) => {
            if (error.message === "failed") expect(world.failedKeys).toContain(key);
            else if (error.message === "late") expect(Date.now() - beganMs).toBe(LONGEST_MS);
            else expect(error.message).toBe("ended");
            if (error.message !== "failed") expect(hasLost).toBe(true);
            return { held: heldThen, keys: [key] };
          });
          asking -= 1;
          expect(held).toBeGreaterThanOrEqual(heldThen);
          expect(keys).toContain(key);
          expect(Date.now() - beganMs).toBeLessThanOrEqual(LONGEST_MS);
        };
        const change = async () => {
          await schedule();
          world.held += 1;
        };
        const wait = async () => {
          await schedule();
          // All other queries settle within their timeout.
          if (world.ending === 0) vi.advanceTimersByTime(TIMEOUT_MS);
        };
        const work = Promise.all(steps.map((step, key) => ({ ask, change, wait })[step](key)));
        for (let waits = 0; waits < 400 && (scheduler.count() > 0 || asking > 0); waits += 1) {
          await idle();
          if (scheduler.count() > 0) await scheduler.waitNext(1);
          else vi.advanceTimersByTime(TIMEOUT_MS / 4);
        }
        await idle();
        expect(asking).toBe(0);
        await work;
        expect(world.mostRunning).toBeLessThanOrEqual(CONCURRENCY);
        // No promise passed to waitUntil may reject. If a query hangs, some never settle.
        if (!hasLost) await Promise.all(world.kept);
      },
    ),
    { numRuns: 1_000 },
  );
}, 30_000);

/** Returns a world in which `endQuery` ends the oldest query. */
function steppedWorld(ends: readonly End[] = []) {
  const waiting: (() => void)[] = [];
  const world = new World(() => new Promise((resolve) => void waiting.push(resolve)), ends);
  return { world, endQuery: () => waiting.shift()?.() };
}

test("one query serves all waiting requests", async () => {
  const { world, endQuery } = steppedWorld();
  const answers = Promise.all([0, 1, 2, 3, 4].map((key) => world.read(key)));
  world.held = 1;
  for (const queries of [CONCURRENCY, CONCURRENCY + 1, CONCURRENCY + 1]) {
    expect(world.queries).toBe(queries);
    endQuery();
    await idle();
  }
  expect((await answers).map(({ held }) => held)).toStrictEqual([0, 0, 1, 1, 1]);
});

test("a request that arrives just after a query ended does not make too many queries run", async () => {
  for (let steps = 0; steps < 12; steps += 1) {
    const { world, endQuery } = steppedWorld();
    const answers = [0, 1, 2].map((key) => world.read(key));
    endQuery();
    for (let step = 0; step < steps; step += 1) await Promise.resolve();
    answers.push(world.read(3));
    for (let query = 0; query < 4; query += 1) {
      await idle();
      endQuery();
    }
    await Promise.all(answers);
    expect(world.mostRunning, `${steps} steps after the end`).toBe(CONCURRENCY);
  }
});

test("after queries have hung, the first request that waited in vain lets the others go on, and not too many", async () => {
  const { world, endQuery } = steppedWorld(["hang", "hang"]);
  const first = Promise.allSettled([0, 1, 2].map((key) => world.read(key)));
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  const later = [3, 4].map((key) => world.read(key));
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  const reasons = (await first).map((one) => one.status === "rejected" && one.reason.message);
  expect(reasons).toStrictEqual(["ended", "ended", "late"]);
  endQuery();
  expect(await Promise.all(later)).toStrictEqual(Array(2).fill({ held: 0, keys: [3, 4] }));

  // Request 2 waits in vain, and request 3 starts a query. Then request 3 waits in vain too.
  const other = steppedWorld(["hang", "hang"]);
  const inVain = Promise.allSettled([0, 1, 2].map((key) => other.world.read(key)));
  await vi.advanceTimersByTimeAsync(1);
  void other.world.read(3).catch(() => undefined);
  await vi.advanceTimersByTimeAsync(LONGEST_MS);
  await inVain;
  const next = [4, 5, 6].map((key) => other.world.read(key));
  expect(other.world.queries).toBe(2 + CONCURRENCY);
  for (let query = 0; query < 3; query += 1) {
    other.endQuery();
    await idle();
  }
  await Promise.all(next);
  expect(other.world.queries).toBe(2 + CONCURRENCY + 1);
});
