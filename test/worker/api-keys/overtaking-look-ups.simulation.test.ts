import { getTableColumns } from "drizzle-orm";
import fc, { type Scheduler } from "fast-check";
import { beforeEach, expect, test, vi } from "vitest";
import { apiKeys } from "../../../src/schema/keys.ts";
import type { FoundKey } from "../../../src/worker/api-keys/key-by-hash.ts";
import { ApiKeyDirectory } from "../../../src/worker/api-keys/directory.ts";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";
import { event, oneOf, step } from "../../rules/limits/histories.ts";

const TIMEOUT_MS = 5_000;
/** The age in milliseconds up to which a remembered key is used. */
const STALE_MS = 25_000;

/** The hash of the key's secret, and a hash that no key has. */
const KEY = "key";
const INVENTED = "invented";

/** The key's row without values. Its columns have the order of the query. */
const EMPTY = Object.fromEntries(
  [...Object.keys(getTableColumns(apiKeys)), "hashEndsAt"].map((name) => [name, null]),
);

const NO_ROW = { sinceMs: 0, row: null as FoundKey | null };

const FAKED = ["Date", "setTimeout", "clearTimeout"] as const;
beforeEach(() => void vi.useFakeTimers({ toFake: [...FAKED], now: 1_800_000_000_000 }));
/**
 * One isolate and a database with one key. The scheduler determines how long each query takes. Each
 * step takes at least a millisecond, so times also say what came first.
 */
function worldOf(scheduler: Scheduler) {
  /** The rows of the key, each with the time at which the database received it. */
  const history = [NO_ROW];
  /** When the last query for the key that succeeded before the timeout began. */
  let knownMs = 0;
  const finds: Promise<void>[] = [];
  const directory = new ApiKeyDirectory(new DatabaseQueries("keys", TIMEOUT_MS), 100);
  const bind = (json: string) => ({ all: () => query(JSON.parse(json) as string[]) });
  const database = { prepare: () => ({ bind }) } as unknown as D1Database;
  return { advance, change, proceed, find, end };

  async function advance(ms = 1): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
    for (let turn = 0; turn < 30; turn += 1) await Promise.resolve();
  }

  /** Replaces the key's row; `null` for no row. */
  async function change(fields: object | null): Promise<void> {
    const sinceMs = Date.now();
    const row = fields && ({ ...EMPTY, hash: KEY, revision: sinceMs, ...fields } as never);
    history.push({ sinceMs, row });
    await advance();
  }

  /** Advances one query by a step, then checks the key if the isolate remembers it. */
  async function proceed(): Promise<void> {
    if (scheduler.count() > 0) await scheduler.waitNext(1);
    await advance();
    if (directory.remembers(KEY)) await find(KEY);
  }

  /** Looks a key up. A remembered row must not be older than one that a query has returned. */
  async function find(hash: string, isSuspect = false): Promise<void> {
    const askedMs = Date.now();
    const lookUp = { isSuspect: () => isSuspect, waitUntil: () => undefined };
    const found = directory.find(database, hash, lookUp);
    if (found === null || "id" in found) {
      expectRow(hash, found, Math.max(askedMs - STALE_MS, knownMs));
    } else {
      const check = found.then(
        (key) => expectRow(hash, key, askedMs),
        (error: unknown) => expect(error).toBeInstanceOf(DatabaseUnavailableError),
      );
      check.catch(() => undefined);
      finds.push(check);
    }
    await advance();
  }

  async function end(): Promise<void> {
    for (let round = 0; round < 10; round += 1) {
      while (scheduler.count() > 0) await proceed();
      await advance(TIMEOUT_MS);
    }
    await Promise.all(finds);
  }

  /** Expects a row that was current at `fromMs` or later. */
  function expectRow(hash: string, found: FoundKey | null, fromMs: number): void {
    const of = hash === KEY ? history : [NO_ROW];
    const rows = of.filter((_, index) => (of[index + 1]?.sinceMs ?? Infinity) >= fromMs);
    expect(rows.map(({ row }) => row?.revision)).toContain(found?.revision);
  }

  async function query(hashes: string[]): Promise<{ results: unknown[] }> {
    const beganMs = Date.now();
    await scheduler.schedule(Promise.resolve(), "reaches the database");
    const results = hashes.includes(KEY) ? [history.at(-1)?.row ?? []].flat() : [];
    await scheduler.schedule(Promise.resolve(), "reaches the isolate");
    const isInTime = Date.now() - beganMs < TIMEOUT_MS;
    if (isInTime && hashes.includes(KEY)) knownMs = Math.max(knownMs, beganMs);
    return { results };
  }
}
type World = ReturnType<typeof worldOf>;

const anyFind = fc.record({
  hash: fc.constantFrom(INVENTED, ...Array<typeof KEY>(8).fill(KEY)),
  isSuspect: fc.nat(9).map((chance) => chance === 0),
});

const anyChange = fc.constantFrom({ revokedAt: 1 }, { hashEndsAt: 1 }, {}, null);

const anyWaitMs = fc.constantFrom(1, 100, 1_000, 1_000, 9_000, 10_000, 15_000);

const anyStep = oneOf<World>(
  [6, step("find", anyFind, (world, { hash, isSuspect }) => world.find(hash, isSuspect))],
  [10, event("proceed", (world) => world.proceed())],
  [6, step("change", anyChange, (world, fields) => world.change(fields))],
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
        const world = worldOf(scheduler);
        await world.change({});
        for (const { play } of steps) await play(world);
        await world.change({ revokedAt: 1 });
        await world.advance(slowMs);
        for (let n = 0; n < proceeded; n += 1) await world.proceed();
        await world.advance(STALE_MS - slowMs + 1);
        await world.find(KEY);
        await world.end();
      },
    ),
    { numRuns: 250 },
  );
});
