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

test("a probe that nobody finishes stops other queries for a second only", async () => {
  const endedRequest = () => queries.run(() => new Promise(() => undefined));
  void endedRequest().catch(() => undefined);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  vi.setSystemTime(Date.now() + 1_000);
  void endedRequest().catch(() => undefined); // The probe. Its timers do not fire below.
  await expect(queries.run(async () => "answer")).rejects.toBeInstanceOf(DatabaseUnavailableError);
  vi.setSystemTime(Date.now() + 1_000);
  expect(await queries.run(async () => "answer")).toBe("answer");
});

test("a query that times out stops no others if the database answered one meanwhile", async () => {
  const silent = queries.run(() => new Promise(() => undefined)).catch((error: unknown) => error);
  await expect(queries.run(() => Promise.reject(new Error("no such table")))).rejects.toThrow();
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  expect(await silent).toBeInstanceOf(DatabaseUnavailableError);
  expect(await queries.run(async () => "answer")).toBe("answer");
});

test("a query is not sent again after its timeout", async () => {
  const busy = vi.fn<() => Promise<never>>().mockRejectedValue(new Error("SQLITE_BUSY"));
  const late = queries.run(busy).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  expect(await late).toBeInstanceOf(DatabaseUnavailableError);
  const sent = busy.mock.calls.length;
  expect(sent).toBeGreaterThan(10);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  expect(busy).toHaveBeenCalledTimes(sent);
});

test("a query that hangs after a temporary error stops others like one that hangs at once", async () => {
  const query = vi.fn<() => Promise<never>>().mockReturnValue(new Promise(() => undefined));
  query.mockRejectedValueOnce(new Error("D1_ERROR: Network connection lost."));
  const late = queries.run(query, repeatable).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  expect(await late).toBeInstanceOf(DatabaseUnavailableError);
  await expect(queries.run(async () => "answer")).rejects.toBeInstanceOf(DatabaseUnavailableError);
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
