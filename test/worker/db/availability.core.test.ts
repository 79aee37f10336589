import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";

const TIMEOUT_MS = 5_000;
const repeatable = { isRepeatable: true };

let queries: DatabaseQueries;
beforeEach(() => {
  vi.useFakeTimers();
  queries = new DatabaseQueries("orders", TIMEOUT_MS);
});
afterEach(() => void vi.useRealTimers());

test("after a query has timed out, even a repeatable read fails without being sent", async () => {
  const silent = queries.run(() => new Promise(() => undefined)).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  expect(await silent).toBeInstanceOf(DatabaseUnavailableError);

  const query = vi.fn<() => Promise<string>>().mockResolvedValue("answer");
  const paused = queries.run(query, repeatable);
  await expect(paused).rejects.toBeInstanceOf(DatabaseUnavailableError); // Rejects although no fake time passes.
  expect(query).not.toHaveBeenCalled();
  vi.setSystemTime(Date.now() + 1_000);
  expect(await queries.run(query, repeatable)).toBe("answer");
});

test("a repeatable read is retried after a temporary error", async () => {
  const query = vi.fn<() => Promise<string>>().mockResolvedValue("answer");
  query.mockRejectedValueOnce(new Error("D1_ERROR: Network connection lost."));
  const answer = queries.run(query, repeatable);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await answer).toBe("answer");
});

test("a read is retried four times after an internal error, and another query is not", async () => {
  const query = vi.fn<() => Promise<string>>();
  query.mockRejectedValue(new Error("D1_ERROR: internal error; reference = 1"));
  const read = queries.run(query, { isRead: true }).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS - 1);
  expect(await read).toBeInstanceOf(DatabaseUnavailableError);
  expect(query).toHaveBeenCalledTimes(5);

  const write = queries.run(query);
  await expect(write).rejects.toBeInstanceOf(DatabaseUnavailableError);
  expect(query).toHaveBeenCalledTimes(6);
});
