import fc, { type Scheduler } from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { BatchedQuery } from "../../../src/worker/db/batched-query.ts";

const CONCURRENCY = 2;
const TIMEOUT_MS = 100;

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** How a query ends. With `hang`, it never settles, as if the platform had ended its request. */
type End = "answer" | "fail" | "hang";

/** The number in the database when the query began, and the keys of the query. */
interface Answer {
  readonly held: number;
  readonly keys: readonly number[];
}

class RequestEndedError extends Error {}

class LateError extends Error {}

/** A simulated database that contains one number. The scheduler determines when each query ends. */
class World {
  held = 0;
  running = 0;
  mostRunning = 0;
  queries = 0;
  readonly kept: Promise<unknown>[] = [];
  /** The keys of failed queries. */
  readonly failed = new Set<number>();
  readonly #schedule: (label: string) => Promise<void>;
  readonly #ends: End[];
  readonly #batched = new BatchedQuery<number, Answer>({
    concurrency: CONCURRENCY,
    timeoutMs: TIMEOUT_MS,
    late: (cause) => new LateError("late", { cause }),
  });

  constructor(schedule: (label: string) => Promise<void>, ends: readonly End[]) {
    this.#schedule = schedule;
    this.#ends = [...ends];
  }

  /**
   * Simulates a request that reads `key`.
   *
   * @throws {RequestEndedError} if the request runs a query that hangs.
   */
  read(key: number): Promise<Answer> {
    const ended = Promise.withResolvers<never>();
    const answer = this.#batched.read(
      key,
      (keys) => this.#query(keys, () => ended.reject(new RequestEndedError())),
      (promise) => this.kept.push(promise),
    );
    return Promise.race([answer, ended.promise]);
  }

  async #query(keys: readonly number[], endRequest: () => void): Promise<Answer> {
    // Sort the keys, because their order does not matter.
    const answer = { held: this.held, keys: keys.toSorted((one, other) => one - other) };
    this.queries += 1;
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
    const end = this.#ends.shift() ?? "answer";
    if (end === "hang") {
      endRequest();
      return new Promise(() => undefined);
    }
    await this.#schedule("a query ends");
    this.running -= 1;
    if (end === "fail") {
      for (const key of keys) this.failed.add(key);
      throw new Error("failed");
    }
    return answer;
  }
}

/** Runs scheduled steps until `work` is done. Returns false if a request waits too long. */
async function finish(scheduler: Scheduler, work: Promise<unknown>): Promise<boolean> {
  let isDone = false;
  void work.finally(() => (isDone = true));
  for (let waitedMs = 0; waitedMs <= 20 * TIMEOUT_MS;) {
    await new Promise((resolve) => setImmediate(resolve));
    if (isDone) return true;
    if (scheduler.count() > 0) {
      await scheduler.waitNext(1);
    } else {
      vi.advanceTimersByTime(TIMEOUT_MS / 4);
      waitedMs += TIMEOUT_MS / 4;
    }
  }
  return false;
}

const end = fc.oneof(
  { weight: 6, arbitrary: fc.constant<End>("answer") },
  { weight: 1, arbitrary: fc.constantFrom<End>("fail", "hang") },
);

test("each request receives a result for its key that was read after the request arrived", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(end, { maxLength: 8 }),
      fc.array(fc.boolean(), { maxLength: 14 }),
      async (scheduler, ends, steps) => {
        const schedule = (label: string) => scheduler.schedule(Promise.resolve(), label);
        const world = new World(schedule, ends);
        const hangs = ends.includes("hang");
        const ask = async (key: number) => {
          await schedule("a request comes");
          const heldThen = world.held;
          try {
            const { held, keys } = await world.read(key);
            expect(held).toBeGreaterThanOrEqual(heldThen);
            expect(keys).toContain(key);
            expect(world.failed).not.toContain(key);
          } catch (error) {
            const isLate = hangs && error instanceof LateError;
            const isEnded = hangs && error instanceof RequestEndedError;
            const isFailure = world.failed.has(key) && (error as Error).message === "failed";
            if (!isLate && !isEnded && !isFailure) throw error;
          }
        };
        const change = async () => {
          await schedule("the value changes");
          world.held += 1;
        };
        const work = Promise.all(steps.map((isRequest, key) => (isRequest ? ask(key) : change())));
        expect(await finish(scheduler, work)).toBe(true);
        await work;
        if (!hangs) expect(world.mostRunning).toBeLessThanOrEqual(CONCURRENCY);
        // No promise passed to waitUntil may reject. If a query hangs, some never settle.
        if (!hangs) await Promise.all(world.kept);
      },
    ),
    { numRuns: 1_000 },
  );
}, 30_000);

/** Returns a world in which `endQuery` ends the oldest query and lets its requests continue. */
function steppedWorld(ends: readonly End[] = []) {
  const waiting: (() => void)[] = [];
  const world = new World(() => new Promise((resolve) => void waiting.push(resolve)), ends);
  const endQueryNow = () => waiting.shift()?.();
  const endQuery = async () => {
    endQueryNow();
    await vi.advanceTimersByTimeAsync(0);
  };
  return { world, endQuery, endQueryNow };
}

test("only a few queries run at the same time, and one query serves all waiting requests", async () => {
  const { world, endQuery } = steppedWorld();
  const answers = Promise.all(Array.from({ length: 10 }, (_, key) => world.read(key)));
  expect(world.queries).toBe(CONCURRENCY);
  world.held = 1;
  await endQuery();
  expect(world.queries).toBe(CONCURRENCY + 1);
  await endQuery();
  await endQuery();
  const late = [2, 3, 4, 5, 6, 7, 8, 9];
  expect(await answers).toStrictEqual([
    { held: 0, keys: [0] },
    { held: 0, keys: [1] },
    ...late.map(() => ({ held: 1, keys: late })),
  ]);
});

test("a request that arrives just after a query ended does not make too many queries run", async () => {
  for (let steps = 0; steps < 12; steps += 1) {
    const { world, endQuery, endQueryNow } = steppedWorld();
    const answers = [0, 1, 2].map((key) => world.read(key));
    endQueryNow();
    for (let step = 0; step < steps; step += 1) await Promise.resolve();
    answers.push(world.read(3));
    for (let query = 0; query < 4; query += 1) await endQuery();
    await Promise.all(answers);
    expect(world.mostRunning, `${steps} steps after the end`).toBe(CONCURRENCY);
  }
});

test("if queries never end, a request waits at most twice the timeout", async () => {
  const { world, endQuery } = steppedWorld(["hang", "hang"]);
  const outcomes = Promise.allSettled([0, 1, 2].map((key) => world.read(key)));
  await vi.advanceTimersByTimeAsync(2 * TIMEOUT_MS - 1);
  expect(world.queries).toBe(CONCURRENCY);
  await vi.advanceTimersByTimeAsync(1);
  const reasons = (await outcomes).map(
    (outcome) => outcome.status === "rejected" && outcome.reason,
  );
  expect(reasons).toStrictEqual([
    expect.any(RequestEndedError),
    expect.any(RequestEndedError),
    expect.any(LateError),
  ]);
  const next = world.read(3);
  await endQuery();
  expect(await next).toStrictEqual({ held: 0, keys: [3] });
});

test("after a waiting request has timed out, the next waiting request starts a query", async () => {
  const { world, endQuery } = steppedWorld(["hang", "hang"]);
  const outcomes = Promise.allSettled([0, 1, 2].map((key) => world.read(key)));
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  const later = [3, 4].map((key) => world.read(key));
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  await endQuery();
  const answer = { held: 0, keys: [3, 4] };
  expect(await Promise.all(later)).toStrictEqual([answer, answer]);
  expect((await outcomes).map(({ status }) => status)).not.toContain("fulfilled");
});

test("a request that times out does not make more queries run than allowed", async () => {
  const { world, endQuery } = steppedWorld(["hang", "hang"]);
  const outcomes = Promise.allSettled([0, 1, 2].map((key) => world.read(key)));
  await vi.advanceTimersByTimeAsync(1);
  const late = Promise.allSettled([world.read(3)]);
  // Request 2 times out, and request 3 starts a query. Then request 3 times out too.
  await vi.advanceTimersByTimeAsync(2 * TIMEOUT_MS);
  expect((await late)[0].status).toBe("rejected");
  const next = [4, 5, 6].map((key) => world.read(key));
  expect(world.queries).toBe(2 + CONCURRENCY);
  await endQuery();
  await endQuery();
  await endQuery();
  await Promise.all([...next, outcomes]);
  expect(world.queries).toBe(2 + CONCURRENCY + 1);
});

test("a query that ends long after its time wakes nobody if other queries run", async () => {
  const { world, endQuery } = steppedWorld();
  const answers = Promise.allSettled([0, 1, 2].map((key) => world.read(key)));
  await vi.advanceTimersByTimeAsync(2 * TIMEOUT_MS);
  const next = Promise.all([3, 4, 5].map((key) => world.read(key)));
  expect(world.queries).toBe(2 + CONCURRENCY);
  await endQuery();
  await endQuery();
  expect(world.queries).toBe(2 + CONCURRENCY);
  for (let query = 0; query < 3; query += 1) await endQuery();
  await Promise.all([answers, next]);
});

test("if the platform ends a waiting request, another one is woken after the next query", async () => {
  const { world, endQuery } = steppedWorld();
  const running = [0, 1].map((key) => world.read(key));
  const withResolvers = Promise.withResolvers.bind(Promise);
  const spy = vi
    .spyOn(Promise, "withResolvers")
    // `world.read(2)` creates three promises. The third one, its wake-up, never settles.
    .mockImplementationOnce(withResolvers)
    .mockImplementationOnce(withResolvers)
    .mockImplementationOnce(() => ({ ...withResolvers(), promise: new Promise(() => undefined) }));
  void world.read(2);
  spy.mockRestore();
  const waiting = world.read(3);
  await endQuery();
  expect(world.queries).toBe(CONCURRENCY);
  await endQuery();
  await endQuery();
  expect(await waiting).toStrictEqual({ held: 0, keys: [2, 3] });
  await Promise.all(running);
});
