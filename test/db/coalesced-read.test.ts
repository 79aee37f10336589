import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DatabaseUnavailableError } from "../../src/db/availability.ts";
import { CoalescedRead } from "../../src/db/coalesced-read.ts";

const CONCURRENCY = 2;
const TIMEOUT_MS = 100;
/** For the rest of a reading, and for one that begins then. */
const WAIT_MS = 2 * TIMEOUT_MS;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A query that has begun. */
interface Query {
  /** What the database held then. */
  readonly value: number;
  readonly begunMs: number;
  readonly answer: (value: number) => void;
  readonly fail: (error: Error) => void;
}

/** What came of a request. */
interface Asked {
  /** What the database held when the request came. */
  readonly heldThen: number;
  outcome: { readonly value: number } | { readonly error: unknown } | null;
}

/** A database that holds one number, and requests that read it. */
class World {
  held = 0;
  /** The queries that have begun and not ended. */
  readonly queries: Query[] = [];
  /** How many there have been. */
  queryCount = 0;
  readonly asked: Asked[] = [];
  /** The queries that never end: whoever had begun them is gone. */
  lost = 0;
  /** What keeps requests at work. */
  readonly work: Promise<unknown>[] = [];
  readonly #read = new CoalescedRead<number>({ concurrency: CONCURRENCY, timeoutMs: TIMEOUT_MS });

  async ask(): Promise<void> {
    const asked: Asked = { heldThen: this.held, outcome: null };
    this.asked.push(asked);
    const reading = this.#read.read(
      () => this.#query(),
      (promise) => this.work.push(promise),
    );
    reading.then(
      (value) => (asked.outcome = { value }),
      (error: unknown) => (asked.outcome = { error }),
    );
    await settle();
  }

  async end(index: number, how: (query: Query, world: World) => void): Promise<void> {
    const [query] = this.queries.splice(index % Math.max(1, this.queries.length), 1);
    if (query !== undefined) how(query, this);
    await settle();
  }

  #query(): Promise<number> {
    this.queryCount += 1;
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.queries.push({ value: this.held, begunMs: Date.now(), answer: resolve, fail: reject });
    return promise;
  }
}

const answer = ({ value, answer: give }: Query) => give(value);
const lose = (_: Query, world: World) => void (world.lost += 1);
const fail = ({ fail: give }: Query) => give(new Error("failed"));

async function settle(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

test("as many as may read at once, and one reads for all that have waited", async () => {
  const world = new World();
  for (let request = 0; request < 10; request += 1) await world.ask();
  expect(world.queries).toHaveLength(CONCURRENCY);
  world.held = 1;
  await world.end(0, answer);
  expect(world.queryCount).toBe(CONCURRENCY + 1);
  await world.end(1, answer);
  expect(world.asked.map(({ outcome }) => outcome)).toStrictEqual([
    { value: 0 },
    null,
    ...Array.from({ length: 8 }, () => ({ value: 1 })),
  ]);
});

test("a failure is that of all whom the reading was for, and of nobody else", async () => {
  const world = new World();
  for (let request = 0; request < 5; request += 1) await world.ask();
  await world.end(0, answer);
  await world.ask();
  await world.end(1, fail);
  await world.end(0, answer);
  await world.end(0, answer);
  expect(world.asked.map(({ outcome }) => outcome)).toStrictEqual([
    { value: 0 },
    { value: 0 },
    ...Array.from({ length: 3 }, () => ({ error: new Error("failed") })),
    { value: 0 },
  ]);
});

test("nobody waits for others without end, and what was lost makes room", async () => {
  const world = new World();
  for (let request = 0; request < 3; request += 1) await world.ask();
  await settle(WAIT_MS - 1);
  expect(world.asked[2]?.outcome).toBeNull();
  await settle(1);
  expect(world.asked[2]?.outcome).toStrictEqual({ error: expect.any(DatabaseUnavailableError) });
  await world.ask();
  expect(world.queryCount).toBe(CONCURRENCY + 1);
});

test("what was lost makes no room once more when it ends after all", async () => {
  const world = new World();
  await world.ask();
  await settle(TIMEOUT_MS + 1);
  for (let request = 0; request < CONCURRENCY + 1; request += 1) await world.ask();
  await world.end(0, answer);
  expect(world.queryCount).toBe(CONCURRENCY + 1);
});

test("one who has given up waiting is passed over", async () => {
  const world = new World();
  for (let request = 0; request < 3; request += 1) await world.ask();
  await settle(TIMEOUT_MS);
  await world.ask();
  await settle(WAIT_MS - TIMEOUT_MS);
  await world.end(0, answer);
  expect(world.queryCount).toBe(CONCURRENCY + 1);
});

test("each request is kept at work until it is answered, though its client may leave", async () => {
  const world = new World();
  for (let request = 0; request < 4; request += 1) await world.ask();
  let done = 0;
  const count = async (work: Promise<unknown>) => {
    await work;
    done += 1;
  };
  const all = Promise.all(world.work.map(count));
  await settle();
  expect(done).toBe(0);
  await world.end(0, answer);
  expect(done).toBe(1);
  await world.end(1, fail);
  await world.end(0, answer);
  await all;
  expect(done).toBe(4);
});

const anyStep = fc.oneof(
  { weight: 4, arbitrary: fc.constant((world: World) => world.ask()) },
  { weight: 2, arbitrary: fc.nat(9).map((index) => (world: World) => world.end(index, answer)) },
  { weight: 1, arbitrary: fc.nat(9).map((index) => (world: World) => world.end(index, fail)) },
  { weight: 1, arbitrary: fc.constant((world: World) => world.end(0, lose)) },
  { weight: 1, arbitrary: fc.constant(async (world: World) => void (world.held += 1)) },
  { weight: 1, arbitrary: fc.nat(TIMEOUT_MS * 2).map((ms) => () => settle(ms)) },
);

test("whatever happens, each is answered, and never with what was read before it came", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 40 }), async (steps) => {
      const world = new World();
      for (const step of steps) {
        await step(world);
        const recent = world.queries.filter(({ begunMs }) => Date.now() - begunMs <= TIMEOUT_MS);
        expect(recent.length).toBeLessThanOrEqual(CONCURRENCY);
      }
      while (world.queries.length > 0) await world.end(0, answer);
      await settle(WAIT_MS);
      while (world.queries.length > 0) await world.end(0, answer);
      const unanswered = world.asked.filter(({ outcome }) => outcome === null);
      expect(unanswered).toHaveLength(world.lost);
      for (const { heldThen, outcome } of world.asked) {
        if (outcome === null || "error" in outcome) continue;
        expect(outcome.value).toBeGreaterThanOrEqual(heldThen);
      }
    }),
    { numRuns: 1_000 },
  );
});
