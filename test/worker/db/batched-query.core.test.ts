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

/** A database that contains one number, read by queries that end as `schedule` and `ends` say. */
function databaseOf(schedule: () => Promise<void>, ends: End[] = []) {
  const options = {
    concurrency: CONCURRENCY,
    timeoutMs: TIMEOUT_MS,
    late: () => new Error("late"),
  };
  const batched = new BatchedQuery<number, { held: number; keys: readonly number[] }>(options);
  const running = new Map<symbol, number>();
  const world = {
    held: 0,
    queries: 0,
    /** The queries that are about to end. */
    ending: 0,
    mostRunning: 0,
    failedKeys: new Set<number>(),
    kept: [] as Promise<unknown>[],
    /** Simulates a request. Fails with "ended" if the platform ends it. */
    read(key: number) {
      const ended = Promise.withResolvers<never>();
      const query = (keys: readonly number[]) => run(keys, () => ended.reject(new Error("ended")));
      const answer = batched.read(key, query, (promise) => void world.kept.push(promise));
      return Promise.race([answer, ended.promise]);
    },
  };
  async function run(keys: readonly number[], endRequest: () => void) {
    const answer = { held: world.held, keys: keys.toSorted((one, other) => one - other) };
    const name = Symbol("run");
    world.queries += 1;
    running.set(name, Date.now());
    // A query for which a request has waited in vain no longer counts.
    const young = [...running.values()].filter((startMs) => Date.now() - startMs < LONGEST_MS);
    world.mostRunning = Math.max(world.mostRunning, young.length);
    const end = ends.shift() ?? "answer";
    if (end === "hang" || end === "late") endRequest();
    if (end === "hang") return new Promise<never>(() => undefined);
    if (end === "late") await new Promise((resolve) => void setTimeout(resolve, 3 * TIMEOUT_MS));
    world.ending += 1;
    await schedule();
    world.ending -= 1;
    running.delete(name);
    if (end !== "fail") return answer;
    for (const key of keys) world.failedKeys.add(key);
    throw new Error("failed");
  }
  return world;
}

const idle = () => new Promise((resolve) => void setImmediate(resolve));

test("each request soon receives a result for its key that was read after the request arrived, and few queries run at a time", async () => {
  const end = fc.constantFrom<End>(...Array<End>(7).fill("answer"), "fail", "hang", "late");
  const act = fc.constantFrom("ask", "ask", "change", "wait");
  const [ends, acts] = [
    fc.array(end, { maxLength: 8, size: "max" }),
    fc.array(act, { maxLength: 16, size: "max" }),
  ];
  const play = async (
    scheduler: fc.Scheduler,
    planned: End[],
    steps: ("ask" | "change" | "wait")[],
  ) => {
    const schedule = () => scheduler.schedule(Promise.resolve());
    const world = databaseOf(schedule, [...planned]);
    const hasLost = planned.includes("hang") || planned.includes("late");
    let asking = 0;
    const work = steps.map(async (step, key) => {
      await schedule();
      if (step === "change") world.held += 1;
      // All other queries settle within their timeout.
      if (step === "wait" && world.ending === 0) vi.advanceTimersByTime(TIMEOUT_MS);
      if (step !== "ask") return;
      const { held: heldThen } = world;
      const beganMs = Date.now();
      asking += 1;
      const answer = await world.read(key).catch(({ message }: Error) => {
        if (message === "failed") expect(world.failedKeys).toContain(key);
        else expect([message, hasLost]).toEqual([expect.stringMatching(/late|ended/), true]);
        if (message === "late") expect(Date.now() - beganMs).toBe(LONGEST_MS);
        return { held: heldThen, keys: [key] };
      });
      asking -= 1;
      expect(answer.held).toBeGreaterThanOrEqual(heldThen);
      expect(answer.keys).toContain(key);
      expect(Date.now() - beganMs).toBeLessThanOrEqual(LONGEST_MS);
    });
    for (let waits = 0; waits < 400 && (scheduler.count() > 0 || asking > 0); waits += 1) {
      await idle();
      if (scheduler.count() > 0) await scheduler.waitNext(1);
      else vi.advanceTimersByTime(TIMEOUT_MS / 4);
    }
    await idle();
    expect(asking).toBe(0);
    await Promise.all(work);
    expect(world.mostRunning).toBeLessThanOrEqual(CONCURRENCY);
    // No promise passed to waitUntil may reject. If a query hangs, some never settle.
    if (!hasLost) await Promise.all(world.kept);
  };
  await fc.assert(fc.asyncProperty(fc.scheduler(), ends, acts, play), { numRuns: 1_000 });
}, 30_000);

/** Returns a database whose oldest query ends when `endQuery` is called. */
function steppedDatabase(ends: End[] = []) {
  const waiting: (() => void)[] = [];
  const world = databaseOf(() => new Promise((resolve) => void waiting.push(resolve)), ends);
  return { world, endQuery: () => waiting.shift()?.() };
}

test("one query serves all waiting requests, and requests stay alive for it", async () => {
  const { world, endQuery } = steppedDatabase();
  const answers = Promise.all([0, 1, 2, 3, 4].map((key) => world.read(key)));
  world.held = 1;
  for (const queries of [CONCURRENCY, CONCURRENCY + 1, CONCURRENCY + 1]) {
    expect(world.queries).toBe(queries);
    endQuery();
    await idle();
  }
  expect((await answers).map(({ held }) => held)).toStrictEqual([0, 0, 1, 1, 1]);
  // Three queries, and three requests that waited.
  expect(world.kept).toHaveLength(6);
});

test("after queries have hung, the first request that waited in vain lets the others go on", async () => {
  const { world, endQuery } = steppedDatabase(["hang", "hang"]);
  const first = Promise.allSettled([0, 1, 2].map((key) => world.read(key)));
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  const later = [3, 4].map((key) => world.read(key));
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  const reasons = (await first).map((one) => one.status === "rejected" && one.reason.message);
  expect(reasons).toStrictEqual(["ended", "ended", "late"]);
  endQuery();
  expect(await Promise.all(later)).toStrictEqual(Array(2).fill({ held: 0, keys: [3, 4] }));
});
