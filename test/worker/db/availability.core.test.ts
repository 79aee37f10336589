import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";

const TIMEOUT_MS = 10_000;
const LOST = "D1_ERROR: Network connection lost.";
const HIDDEN = "D1_ERROR: internal error; reference = 1";
const READ = { isRead: true };
const REPEATABLE = { isRepeatable: true };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.restoreAllMocks().useRealTimers());

test.each([
  [LOST, READ, 1, "unavailable"],
  [LOST, REPEATABLE, 5, "unavailable"],
  ["D1_ERROR: D1 DB is overloaded.", REPEATABLE, 3, "unavailable"],
  ["D1_ERROR: no such table: SQLITE_ERROR", REPEATABLE, 1, "a fault of the statement"],
  // A command locks a local database, which may be hidden: then a write may have been executed.
  ["D1_ERROR: database is locked: SQLITE_BUSY", {}, 43, "unavailable"],
  [HIDDEN, READ, 5, "unavailable"],
  [HIDDEN, {}, 1, "unavailable"],
])("after %s, a query with %j is sent %i times within its timeout: %s", async (...row) => {
  const [text, options, attempts, outcome] = row;
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const error = new Error(text);
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
