import fc, { type Scheduler } from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { FoundKey } from "../../../src/worker/api-keys/key-by-hash.ts";
import { ApiKeyDirectory } from "../../../src/worker/api-keys/directory.ts";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";
import { event, oneOf, step, type Step } from "../../rules/limits/histories.ts";

const TIMEOUT_MS = 5_000;
/** The age in milliseconds up to which a remembered key is used. */
const STALE_MS = 25_000;

/** One key's hashes before and after its rotation, and two hashes that no key has. */
const HASHES = ["first", "second", "invented", "also invented"] as const;
type Hash = (typeof HASHES)[number];

/** The columns of a key's row, in the order of the query. */
const KEY = Object.fromEntries([
  ...Object.entries({ id: "key_1", hash: "", lastFour: "aaaa", name: "Test", plan: "free" }),
  ...["perMinute", "perDay", "createdAt", "expiresAt", "revokedAt"].map((name) => [name, null]),
  ...["revision", "resets"].map((name) => [name, 0]),
  ...["locationHint", "hashEndsAt"].map((name) => [name, null]),
]);

/** The fields of each hash's row; `null` if no key has the hash. */
type Rows = Partial<Record<Hash, object | null>>;

/** The row of one hash, with the step and the time at which the database received the row. */
interface State {
  readonly sinceStep: number;
  readonly sinceMs: number;
  readonly row: object | null;
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: 1_800_000_000_000 });
});

afterEach(() => {
  vi.useRealTimers();
});

/** One isolate and a database with one key. The scheduler determines how long each query takes. */
class World {
  failNext = 0;
  readonly #history: Record<Hash, State[]>;
  /** The queries that succeeded before the timeout, and the steps in which they began. */
  readonly #answered: { readonly hashes: readonly string[]; readonly beganStep: number }[] = [];
  #failures = 0;
  readonly #finds: Promise<unknown>[] = [];
  readonly #violations: unknown[] = [];
  #step = 0;
  #revision = 0;
  readonly #scheduler: Scheduler;
  readonly #directory = new ApiKeyDirectory(new DatabaseQueries("keys", TIMEOUT_MS), 100);

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    const none = { sinceStep: 0, sinceMs: 0, row: null };
    this.#history = { first: [none], second: [none], invented: [none], "also invented": [none] };
    this.change({ first: {} });
  }

  /** Replaces rows in one transaction, like a revocation or a rotation. */
  change(rows: Rows): void {
    this.#step += 1;
    this.#revision += 1;
    for (const [hash, fields] of Object.entries(rows)) {
      const row = fields && { ...KEY, hash, revision: this.#revision, ...fields };
      this.#history[hash as Hash].push({ sinceStep: this.#step, sinceMs: Date.now(), row });
    }
  }

  async advance(ms: number): Promise<void> {
    this.#step += 1;
    await vi.advanceTimersByTimeAsync(ms);
  }

  /** Advances one query by a step, then checks the key `first` if the isolate remembers it. */
  async proceed(): Promise<void> {
    this.#step += 1;
    if (this.#scheduler.count() > 0) await this.#scheduler.waitNext(1);
    await settle();
    if (this.#directory.remembers("first")) await this.find("first", false);
  }

  /** Looks a key up. Checks a remembered key immediately, and a query's result when it arrives. */
  async find(hash: Hash, isSuspect: boolean): Promise<void> {
    this.#step += 1;
    const askedMs = Date.now();
    const found = this.#directory.find(this.#database(), hash, {
      isSuspect: () => isSuspect,
      waitUntil: () => undefined,
    });
    if (found === null || "id" in found) {
      const known = this.#answered.filter(({ hashes }) => hashes.includes(hash));
      const knownStep = Math.max(0, ...known.map(({ beganStep }) => beganStep));
      this.#expectState(hash, found, knownStep, askedMs - STALE_MS);
    } else {
      const failures = this.#failures;
      const check = found.then(
        (key) => this.#expectState(hash, key, 0, askedMs),
        (error: unknown) => {
          expect(error).toBeInstanceOf(DatabaseUnavailableError);
          const isLate = Date.now() - askedMs >= TIMEOUT_MS;
          const isPaused = String((error as Error).cause).includes("has just timed out");
          expect(isLate || isPaused || this.#failures > failures).toBe(true);
        },
      );
      this.#finds.push(check.catch((violation: unknown) => this.#violations.push(violation)));
    }
    await settle();
  }

  async end(): Promise<void> {
    for (let round = 0; round < 10; round += 1) {
      while (this.#scheduler.count() > 0) await this.proceed();
      await this.advance(TIMEOUT_MS);
    }
    await Promise.all(this.#finds);
    expect(this.#violations).toStrictEqual([]);
  }

  /** Expects a row that was current at some time after step `fromStep` and after `fromMs`. */
  #expectState(hash: Hash, found: FoundKey | null, fromStep: number, fromMs: number): void {
    const states = this.#history[hash].filter((_, index, all) => {
      const next = all[index + 1];
      return next === undefined || (next.sinceStep > fromStep && next.sinceMs >= fromMs);
    });
    const revisions = states.map(({ row }) => (row as FoundKey | null)?.revision ?? null);
    expect(revisions).toContain(found?.revision ?? null);
  }

  #database(): D1Database {
    const bind = (json: string) => ({ all: () => this.#query(JSON.parse(json) as Hash[]) });
    return { prepare: () => ({ bind }) } as unknown as D1Database;
  }

  async #query(hashes: Hash[]): Promise<{ results: unknown[] }> {
    const beganStep = this.#step;
    const beganMs = Date.now();
    const fails = this.failNext > 0;
    this.failNext -= Number(fails);
    await this.#scheduler.schedule(Promise.resolve(), "reaches the database");
    const results = hashes.flatMap((hash) => this.#history[hash].at(-1)?.row ?? []);
    await this.#scheduler.schedule(Promise.resolve(), "reaches the isolate");
    const isLate = Date.now() - beganMs >= TIMEOUT_MS;
    if (fails || isLate) this.#failures += 1;
    if (fails) throw new Error("D1_ERROR: Network connection lost.");
    if (!isLate) this.#answered.push({ hashes, beganStep });
    return { results };
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await Promise.resolve();
}

const anyHash = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Hash>("first") },
  { weight: 1, arbitrary: fc.constantFrom(...HASHES) },
);

const anyChange = fc.constantFrom<Rows>(
  { first: { revokedAt: 1 } },
  { first: null },
  { first: {} },
  // These two changes rotate the key and revert the rotation.
  { first: { hashEndsAt: 1 }, second: {} },
  { first: {}, second: null },
);

const anyWaitMs = fc.constantFrom(1, 100, 1_000, 1_000, 9_000, 10_000, 15_000);

const anyStep: fc.Arbitrary<Step<World>> = oneOf<World>(
  [
    6,
    step("find", fc.tuple(anyHash, fc.nat(9)), (world, [hash, chance]) =>
      world.find(hash, chance === 0),
    ),
  ],
  [10, event("proceed", (world) => world.proceed())],
  [6, step("change", anyChange, (world, rows) => world.change(rows))],
  [1, event("fail next", (world) => void (world.failNext += 1))],
  [4, step("wait", anyWaitMs, (world, ms) => world.advance(ms))],
);

test("an earlier look-up that finishes after a later one never restores an older row, and revocation takes effect within 30 seconds (after 25 the key is looked up again), however slow the queries are", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(anyStep, { minLength: 5, maxLength: 60, size: "max" }),
      fc.nat(4),
      fc.nat(TIMEOUT_MS - 1),
      async (scheduler, steps, proceeded, slowMs) => {
        const world = new World(scheduler);
        for (const { play } of steps) await play(world);
        world.change({ first: { revokedAt: 1 } });
        await world.advance(slowMs);
        for (let n = 0; n < proceeded; n += 1) await world.proceed();
        await world.advance(STALE_MS - slowMs + 1);
        await world.find("first", false);
        await world.end();
      },
    ),
    { numRuns: 250 },
  );
});
