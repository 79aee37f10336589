import fc from "fast-check";
import { beforeEach, expect, test, vi } from "vitest";
import { BatchedCalls } from "../../src/worker/batched-calls.ts";
import { pause } from "../../src/worker/deadline.ts";

const CONCURRENCY = 2;
const TIMEOUT_MS = 100;
const LONGEST_MS = 2 * TIMEOUT_MS;

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] }));

const idle = () => new Promise((resolve) => void setImmediate(resolve));

/** How a query ends. If it hangs or is late, the platform has ended its request. */
type End = "answer" | "fail" | "hang" | "late";

/** A database that contains one number, read by queries that end as `schedule` and `ends` say. */
function databaseOf(schedule: () => Promise<void>, ends: End[] = []) {
  const late = (cause: Error) => new Error("late", { cause });
  const options = { concurrency: CONCURRENCY, timeoutMs: TIMEOUT_MS, late };
  const batched = new BatchedCalls<number, { held: number; key: number }>(options);
  const running = new Set<{ readonly startMs: number }>();
  const world = { held: 0, queries: 0, kept: [] as Promise<unknown>[], read };
  const beganMs = new Map<number, number>();
  return world;

  /** Simulates a request. Fails with "ended" if the platform ends it. */
  function read(key: number) {
    const ended = Promise.withResolvers<never>();
    beganMs.set(key, Date.now());
    const query = (keys: readonly number[]) => run(keys, () => ended.reject(new Error("ended")));
    const answer = batched.valueOf(key, query, (promise) => void world.kept.push(promise));
    return Promise.race([answer, ended.promise]);
  }

  async function run(keys: readonly number[], endRequest: () => void) {
    // Those who have given up are not asked for.
    for (const key of keys) expect(Date.now() - beganMs.get(key)!).toBeLessThan(LONGEST_MS);
    const answer = keys.map((key) => ({ held: world.held, key }));
    const end = ends.shift() ?? "answer";
    const one = { startMs: Date.now() };
    world.queries += 1;
    running.add(one);
    // A query for which a request has waited in vain no longer counts.
    const young = [...running].filter(({ startMs }) => Date.now() - startMs < LONGEST_MS);
    expect(young.length).toBeLessThanOrEqual(CONCURRENCY);
    if (end === "hang" || end === "late") endRequest();
    if (end === "hang") return new Promise<never>(() => undefined);
    if (end === "late") await pause(3 * TIMEOUT_MS);
    await schedule();
    running.delete(one);
    if (end === "fail") throw new Error("failed");
    return answer;
  }
}

const end = fc.constantFrom<End>(...Array<End>(7).fill("answer"), "fail", "hang", "late");
const ends = fc.array(end, { maxLength: 8, size: "max" });
const delays = fc.array(fc.constantFrom(0, 0, 50, 150), { maxLength: 16, size: "max" });

test("each request soon receives a result for its key that was read after the request arrived, and few queries run at a time", async () => {
  const play = async (scheduler: fc.Scheduler, planned: End[], delaysMs: number[]) => {
    const schedule = () => scheduler.schedule(Promise.resolve());
    const upcoming = [...planned];
    const world = databaseOf(schedule, upcoming);
    const hasLost = planned.includes("hang") || planned.includes("late");
    const finish = async (...work: Promise<unknown>[]) => {
      let isDone = false;
      const all = Promise.all(work).finally(() => (isDone = true));
      all.catch(() => undefined); // Thrown below.
      for (let waits = 0; waits < 400 && !isDone; waits += 1) {
        await idle();
        if (scheduler.count() > 0) await scheduler.waitNext(1);
        else vi.advanceTimersByTime(TIMEOUT_MS / 4);
      }
      expect(isDone).toBe(true);
      await all;
    };
    const ask = async (delayMs: number, key: number) => {
      await pause(delayMs);
      await schedule();
      // Every third request changes the database instead.
      if (key % 3 === 2) return void (world.held += 1);
      const { held } = world;
      const beganMs = Date.now();
      const lost = (error: Error) => {
        if (error.message !== "failed") expect(hasLost).toBe(true);
        if (error.message === "late") {
          expect(Date.now() - beganMs).toBe(LONGEST_MS);
          expect(error.cause).toMatchObject({ message: "No shared call was answered in time." });
        }
        return { held, key };
      };
      const answer = await world.read(key).catch(lost);
      expect(answer.held).toBeGreaterThanOrEqual(held);
      expect(answer.key).toBe(key);
      expect(Date.now() - beganMs).toBeLessThanOrEqual(LONGEST_MS);
    };
    await finish(...delaysMs.map(ask));
    // The first request that has waited in vain for queries that have hung lets others go on.
    upcoming.length = 0;
    const first = world.read(100).catch(() => undefined);
    const second = pause(50).then(() => world.read(101));
    await finish(first, second);
    // No promise passed to waitUntil may reject. If a query hangs, some never settle.
    if (!hasLost) await Promise.all(world.kept);
  };
  await fc.assert(fc.asyncProperty(fc.scheduler(), ends, delays, play), { numRuns: 500 });
});

test("one query serves all waiting requests, which stay alive for it; if the platform has ended the request that is woken, the end of another call wakes the next one", async () => {
  const waiting: (() => void)[] = [];
  const world = databaseOf(() => new Promise((resolve) => void waiting.push(resolve)));
  const underWay = Promise.all([world.read(0), world.read(1)]);
  const real: () => PromiseWithResolvers<any> = Promise.withResolvers.bind(Promise);
  // The platform never resumes a request that it has ended.
  const wake = () => ({ ...real(), promise: new Promise(() => undefined) });
  const resolvers = vi.spyOn(Promise, "withResolvers");
  resolvers.mockImplementationOnce(real).mockImplementationOnce(real).mockImplementationOnce(wake);
  void world.read(2);
  resolvers.mockRestore();
  const others = Promise.all([world.read(3), world.read(4)]);
  world.held = 1;
  for (const queries of [CONCURRENCY, CONCURRENCY, CONCURRENCY + 1]) {
    expect(world.queries).toBe(queries);
    waiting.shift()?.();
    await idle();
  }
  const answers = [...(await underWay), ...(await others)];
  expect(answers.map(({ held }) => held)).toStrictEqual([0, 0, 1, 1]);
  const few = new BatchedCalls<number, number>({ concurrency: 1, timeoutMs: TIMEOUT_MS });
  await expect(few.valueOf(1, () => Promise.resolve([]), vi.fn())).rejects.toThrow("too few");
  // Three queries, and three requests that waited.
  expect(world.kept).toHaveLength(6);
});
