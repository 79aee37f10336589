import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";

const TIMEOUT_MS = 10_000;
const UNIQUE = new Error("UNIQUE constraint failed: SQLITE_CONSTRAINT");
const READ = { isRead: true };
const REPEATABLE = { isRepeatable: true };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.restoreAllMocks().useRealTimers());

test.each<[Error, object, number, string]>([
  [new Error("D1_ERROR: Network connection lost."), READ, 1, "unavailable"],
  [new Error("D1_ERROR: D1 DB is overloaded."), REPEATABLE, 3, "unavailable"],
  [new Error("D1_ERROR: near ?: SQLITE_ERROR"), REPEATABLE, 1, "a fault of the statement"],
  [new Error("D1_ERROR", { cause: UNIQUE }), REPEATABLE, 1, "a fault of the statement"],
  [new Error("D1_TYPE_ERROR: not supported"), REPEATABLE, 1, "a fault of the statement"],
  [new Error("no such column: x"), REPEATABLE, 1, "a fault of the statement"],
  [new TypeError("not a function"), REPEATABLE, 1, "a fault of the statement"],
  // A command locks a local database, which may be hidden: then a write may have been executed.
  [new Error("D1_ERROR: SQLITE_BUSY"), {}, 43, "unavailable"],
  [new Error("D1_ERROR: SQLITE_LOCKED"), {}, 43, "unavailable"],
  [new Error("D1_ERROR", { cause: new Error("database is locked") }), {}, 43, "unavailable"],
  [new Error("Failed to get session commit token"), {}, 43, "unavailable"],
  [new Error("D1_ERROR: internal error; reference = 1"), READ, 5, "unavailable"],
])("after %s, a query with %j is sent %i times within its timeout: %s", async (...row) => {
  const [error, options, attempts, outcome] = row;
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const endMs = Date.now() + TIMEOUT_MS;
  const query = vi.fn(() => {
    expect(Date.now()).toBeLessThanOrEqual(endMs);
    return Promise.reject(error);
  });
  const running = new DatabaseQueries("orders", TIMEOUT_MS).run(query, options);
  const thrown = running.catch((reason: unknown) => reason);
  await vi.advanceTimersByTimeAsync(3 * TIMEOUT_MS);
  if (outcome === "unavailable") expect(await thrown).toBeInstanceOf(DatabaseUnavailableError);
  else expect(await thrown).toBe(error);
  expect(query).toHaveBeenCalledTimes(attempts);
});
