import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DatabaseQueries, MAX_ATTEMPTS } from "../../../src/worker/db/availability.ts";

const TIMEOUT_MS = 10_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const LOST = "D1_ERROR: Network connection lost.";
const OVERLOADED = "D1_ERROR: D1 DB is overloaded. Requests queued for too long.";
const HIDDEN = "D1_ERROR: internal error; reference = 1";
const READ = { isRead: true };
const REPEATABLE = { isRepeatable: true };

test.each([
  { text: LOST, options: READ, least: 1, most: 1 },
  { text: LOST, options: REPEATABLE, least: 3, most: MAX_ATTEMPTS, pauseMs: 100 },
  { text: OVERLOADED, options: REPEATABLE, least: 3, most: MAX_ATTEMPTS, pauseMs: 750 },
  { text: "no such table: SQLITE_ERROR", options: REPEATABLE, least: 1, most: 1, isFault: true },
  {
    text: "CHECK failed: SQLITE_CONSTRAINT",
    options: REPEATABLE,
    least: 1,
    most: 1,
    isFault: true,
  },
  // A command locks a local database, which may be hidden: then a write may have been executed.
  { text: "database is locked: SQLITE_BUSY", options: {}, least: 10, most: Infinity },
  { text: HIDDEN, options: READ, least: 5, most: 5 },
  { text: HIDDEN, options: {}, least: 1, most: 1 },
])(
  "a query with $options is sent $least to $most times if it fails with $text, and never after its timeout",
  async ({ text, options, least, most, pauseMs = 0, isFault = false }) => {
    const error = new Error(text);
    const beganMs = Date.now();
    const sentMs: number[] = [];
    const query = () => {
      sentMs.push(Date.now() - beganMs);
      return Promise.reject(error);
    };
    const queries = new DatabaseQueries("orders", TIMEOUT_MS);
    const outcome = queries.run(query, options).catch((thrown: unknown) => thrown);
    await vi.advanceTimersByTimeAsync(3 * TIMEOUT_MS);
    if (isFault) expect(await outcome).toBe(error);
    else expect(await outcome).toMatchObject({ name: "Error", database: "orders" });
    expect(sentMs.length).toBeGreaterThanOrEqual(least);
    expect(sentMs.length).toBeLessThanOrEqual(most);
    expect(sentMs.at(-1)).toBeLessThanOrEqual(TIMEOUT_MS);
    // Each pause is three times longer than the one before.
    for (const [index, ms] of sentMs.slice(1).entries())
      expect(ms - sentMs[index]!).toBeGreaterThanOrEqual(pauseMs * 3 ** index);
  },
);
