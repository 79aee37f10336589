import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  DatabaseQueries,
  DatabaseUnavailableError,
  MAX_ATTEMPTS,
} from "../../../src/worker/db/availability.ts";

const TIMEOUT_MS = 10_000;
const repeatable = { isRepeatable: true };
const silence = () => new Promise<never>(() => undefined);

let queries: DatabaseQueries;
beforeEach(() => {
  vi.useFakeTimers();
  queries = new DatabaseQueries("orders", TIMEOUT_MS);
});
afterEach(() => void vi.useRealTimers());

/** Runs a query whose attempts fail with `error`. Returns when they were sent, and the outcome. */
async function attemptsOf(error: Error, options: Parameters<DatabaseQueries["run"]>[1]) {
  const beganMs = Date.now();
  const sentMs: number[] = [];
  const query = () => {
    sentMs.push(Date.now() - beganMs);
    return Promise.reject(error);
  };
  const outcome = queries.run(query, options).catch((thrown: unknown) => thrown);
  await vi.advanceTimersByTimeAsync(3 * TIMEOUT_MS);
  return { sentMs, outcome: await outcome };
}

test("a read of a list that has begun does not fail because another query has timed out", async () => {
  const silent = queries.run(silence).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  expect(await silent).toBeInstanceOf(DatabaseUnavailableError);
  expect(await queries.run(async () => "answer", repeatable)).toBe("answer");
});

test("a repeatable query is sent a handful of times, with growing pauses, and never after its timeout", async () => {
  for (const [message, shortestMs] of [
    ["D1_ERROR: Network connection lost.", 100],
    ["D1_ERROR: D1 DB is overloaded. Requests queued for too long.", 750],
  ] as const) {
    const { sentMs, outcome } = await attemptsOf(new Error(message), repeatable);
    expect(outcome).toBeInstanceOf(DatabaseUnavailableError);
    expect(sentMs.length).toBeLessThanOrEqual(MAX_ATTEMPTS);
    expect(sentMs.length).toBeGreaterThan(2);
    expect(sentMs.at(-1)).toBeLessThan(TIMEOUT_MS);
    for (const [index, ms] of sentMs.slice(1).entries())
      expect(ms - sentMs[index]!).toBeGreaterThanOrEqual(shortestMs * 3 ** index);
  }
});

test("a query waits until its timeout while a command locks a local database, and a read also after a hidden lock", async () => {
  const locked = await attemptsOf(new Error("D1_ERROR: database is locked: SQLITE_BUSY"), {});
  expect(locked.sentMs.length).toBeGreaterThan(10);
  expect(locked.sentMs.at(-1)).toBeLessThanOrEqual(TIMEOUT_MS);
  const hidden = new Error("D1_ERROR: internal error; reference = 1");
  expect((await attemptsOf(hidden, { isRead: true })).sentMs).toHaveLength(5);
  expect((await attemptsOf(hidden, {})).sentMs).toHaveLength(1);
});

test.each([
  // Errors that Cloudflare documents in "Debug D1", section "List of D1_ERRORs".
  ["D1_ERROR: D1 DB reset because its code was updated.", false],
  ["D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset.", false],
  ["D1_ERROR: Network connection lost.", false],
  ["D1_ERROR: D1 DB is overloaded. Requests queued for too long.", false],
  ["D1_ERROR: D1 DB exceeded its CPU time limit and was reset.", false],
  ["D1_ERROR: no such table: orders: SQLITE_ERROR", true],
  ["D1_ERROR: CHECK constraint failed: complete_is_boolean: SQLITE_CONSTRAINT", true],
  ["D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'", true],
])(
  "the query is not sent again after %s: a fault of the statement, even if repeatable: %s",
  async (message, isFault) => {
    const error = new Error(message);
    const options = { isRead: true, isRepeatable: isFault };
    const { sentMs, outcome } = await attemptsOf(error, options);
    if (isFault) expect(outcome).toBe(error);
    else expect(outcome).toMatchObject({ database: "orders", cause: error });
    expect(sentMs).toStrictEqual([0]);
  },
);
