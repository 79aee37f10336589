import { getTableColumns } from "drizzle-orm";
import fc, { type Scheduler } from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { apiKeys } from "../../../src/schema/keys.ts";
import type { FoundKey } from "../../../src/worker/api-keys/key-by-hash.ts";
import { ApiKeyDirectory } from "../../../src/worker/api-keys/directory.ts";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";
import { event, oneOf, step } from "../../rules/limits/histories.ts";

const TIMEOUT_MS = 5_000;
/** The age in milliseconds up to which a remembered key is used. */
const STALE_MS = 25_000;

/** One key's hashes before and after its rotation, and a hash that no key has. */
const HASHES = ["first", "second", "invented"] as const;
type Hash = (typeof HASHES)[number];

/** A row without values, whose columns have the order of the query. */
const EMPTY = Object.fromEntries(
  [...Object.keys(getTableColumns(apiKeys)), "hashEndsAt"].map((name) => [name, null]),
);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: 1_800_000_000_000 });
});

afterEach(() => void vi.useRealTimers());

/**
 * One isolate and a database with one key. The scheduler determines how long each query takes. Each
 * step takes at least a millisecond, so times also say what came first.
 */
class World {
  /** The rows of each hash, each with the time at which the database received it. */
  readonly #history = Object.fromEntries(
    HASHES.map((hash) => [hash, [{ sinceMs: 0, row: null as FoundKey | null }]]),
  );
  /** When the last query for each hash that succeeded before the timeout began. */
  readonly #knownMs: Partial<Record<Hash, number>> = {};
  readonly #finds: Promise<void>[] = [];
  readonly #scheduler: Scheduler;
  readonly #directory = new ApiKeyDirectory(new DatabaseQueries("keys", TIMEOUT_MS), 100);

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  async advance(ms = 1): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
    for (let turn = 0; turn < 30; turn += 1) await Promise.resolve();
  }

  /** Replaces rows in one transaction, like a revocation or a rotation; `null` for no row. */
  async change(rows: Partial<Record<Hash, object | null>>): Promise<void> {
    const sinceMs = Date.now();
    for (const [hash, fields] of Object.entries(rows)) {
      const row = fields && ({ ...EMPTY, hash, revision: sinceMs, ...fields } as never);
      this.#history[hash]!.push({ sinceMs, row });
    }
    await this.advance();
  }

  /** Advances one query by a step, then checks the key `first` if the isolate remembers it. */
  async proceed(): Promise<void> {
    if (this.#scheduler.count() > 0) await this.#scheduler.waitNext(1);
    await this.advance();
    if (this.#directory.remembers("first")) await this.find("first");
  }

  /** Looks a key up. A remembered row must not be older than one that a query has returned. */
  async find(hash: Hash, isSuspect = false): Promise<void> {
    const askedMs = Date.now();
    const bind = (json: string) => ({ all: () => this.#query(JSON.parse(json) as Hash[]) });
    const database = { prepare: () => ({ bind }) } as unknown as D1Database;
    const lookUp = { isSuspect: () => isSuspect, waitUntil: () => undefined };
    const found = this.#directory.find(database, hash, lookUp);
    if (found === null || "id" in found) {
      this.#expectRow(hash, found, Math.max(askedMs - STALE_MS, this.#knownMs[hash] ?? 0));
    } else {
      const check = found.then(
        (key) => this.#expectRow(hash, key, askedMs),
        (error: unknown) => expect(error).toBeInstanceOf(DatabaseUnavailableError),
      );
      check.catch(() => undefined);
      this.#finds.push(check);
    }
    await this.advance();
  }

  /** Lets all queries end. */
  async end(): Promise<void> {
    for (let round = 0; round < 10; round += 1) {
      while (this.#scheduler.count() > 0) await this.proceed();
      await this.advance(TIMEOUT_MS);
    }
    await Promise.all(this.#finds);
  }

  /** Expects a row that was current at `fromMs` or later. */
  #expectRow(hash: Hash, found: FoundKey | null, fromMs: number): void {
    const history = this.#history[hash]!;
    const rows = history.filter((_, index) => (history[index + 1]?.sinceMs ?? Infinity) >= fromMs);
    expect(rows.map(({ row }) => row?.revision)).toContain(found?.revision);
  }

  async #query(hashes: Hash[]): Promise<{ results: unknown[] }> {
    const beganMs = Date.now();
    await this.#scheduler.schedule(Promise.resolve(), "reaches the database");
    const results = hashes.flatMap((hash) => this.#history[hash]!.at(-1)?.row ?? []);
    await this.#scheduler.schedule(Promise.resolve(), "reaches the isolate");
    if (Date.now() - beganMs >= TIMEOUT_MS) return { results };
    for (const hash of hashes) this.#knownMs[hash] = Math.max(this.#knownMs[hash] ?? 0, beganMs);
    return { results };
  }
}

const anyFind = fc.record({
  hash: fc.constantFrom(...HASHES, ...Array<"first">(12).fill("first")),
  isSuspect: fc.nat(9).map((chance) => chance === 0),
});

const anyChange = fc.constantFrom<Partial<Record<Hash, object | null>>>(
  { first: { revokedAt: 1 } },
  { first: null },
  { first: {} },
  // These two changes rotate the key and revert the rotation.
  { first: { hashEndsAt: 1 }, second: {} },
  { first: {}, second: null },
);

const anyWaitMs = fc.constantFrom(1, 100, 1_000, 1_000, 9_000, 10_000, 15_000);

const anyStep = oneOf<World>(
  [6, step("find", anyFind, (world, { hash, isSuspect }) => world.find(hash, isSuspect))],
  [10, event("proceed", (world) => world.proceed())],
  [6, step("change", anyChange, (world, rows) => world.change(rows))],
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
        await world.change({ first: {} });
        for (const { play } of steps) await play(world);
        await world.change({ first: { revokedAt: 1 } });
        await world.advance(slowMs);
        for (let n = 0; n < proceeded; n += 1) await world.proceed();
        await world.advance(STALE_MS - slowMs + 1);
        await world.find("first");
        await world.end();
      },
    ),
    { numRuns: 250 },
  );
});
