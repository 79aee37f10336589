import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";

const TIMEOUT_MS = 5_000;
const repeatable = { isRepeatable: true };
const silence = () => new Promise<never>(() => undefined);

let queries: DatabaseQueries;
beforeEach(() => {
  vi.useFakeTimers();
  queries = new DatabaseQueries("orders", TIMEOUT_MS);
});
afterEach(() => void vi.useRealTimers());

test("after a query has timed out, even a repeatable read fails without being sent", async () => {
  const silent = queries.run(silence).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
  expect(await silent).toBeInstanceOf(DatabaseUnavailableError);

  const query = vi.fn<() => Promise<string>>().mockResolvedValue("answer");
  const paused = queries.run(query, repeatable);
  await expect(paused).rejects.toBeInstanceOf(DatabaseUnavailableError); // Rejects although no fake time passes.
  expect(query).not.toHaveBeenCalled();
  vi.setSystemTime(Date.now() + 1_000);
  expect(await queries.run(query, repeatable)).toBe("answer");
});

/** Runs a query whose timeout never fires, as if the platform had ended its request. */
function runInEndedRequest(query: () => Promise<unknown>): void {
  const timer = vi.spyOn(globalThis, "setTimeout").mockReturnValueOnce(0 as never);
  void queries.run(query).catch(() => undefined);
  timer.mockRestore();
}

const anyStep = fc.record({
  gapMs: fc.constantFrom(0, 1, 500, 999, 1_000, TIMEOUT_MS - 1, TIMEOUT_MS),
  end: fc.constantFrom("answer", "fault", "lost", "hang", "hang", "request ends"),
});

test("after the time-out of a query since which none was answered, one query a second is sent until one is answered", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 30 }), async (steps) => {
      queries = new DatabaseQueries("orders", TIMEOUT_MS);
      let unanswered: number[] = []; // When each query was sent since the last answer.
      let timeouts: number[] = []; // When each query times out, unless its request ended.
      for (const { gapMs, end } of steps) {
        await vi.advanceTimersByTimeAsync(gapMs);
        const nowMs = Date.now();
        const beganMs = Math.min(...timeouts.filter((timeoutMs) => timeoutMs <= nowMs));
        const probesMs = unanswered.filter((ms) => ms >= beganMs);
        const isPaused = [beganMs, ...probesMs].some((ms) => nowMs >= ms && nowMs - ms < 1_000);
        const query = vi.fn<() => Promise<unknown>>(async () => {
          if (end === "fault") throw new Error("no such table");
          if (end === "lost") throw new Error("D1_ERROR: Network connection lost.");
          return end === "answer" ? "answer" : silence();
        });
        if (end === "request ends") runInEndedRequest(query);
        else void queries.run(query).catch(() => undefined);
        await vi.advanceTimersByTimeAsync(0);
        const isSent = query.mock.calls.length === 1;
        expect(isSent).toBe(!isPaused);
        if (!isSent) continue;
        unanswered.push(nowMs);
        if (end === "hang") timeouts.push(nowMs + TIMEOUT_MS);
        if (["answer", "fault", "lost"].includes(end)) [unanswered, timeouts] = [[], []];
      }
    }),
  );
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
  const query = vi.fn<() => Promise<never>>().mockImplementation(silence);
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

/** The errors that Cloudflare documents in "Debug D1", section "List of D1_ERRORs". */
const UNAVAILABLE = [
  "D1 DB reset because its code was updated.",
  "Internal error while starting up D1 DB storage caused object to be reset.",
  "Network connection lost.",
  "Internal error in D1 DB storage caused object to be reset.",
  "Cannot resolve D1 DB due to transient issue on remote node.",
  "Can't read from request stream because client disconnected.",
  "D1 DB storage operation exceeded timeout which caused object to be reset.",
  "D1 DB is overloaded. Requests queued for too long.",
  "D1 DB is overloaded. Too many requests queued.",
  "D1 DB's isolate exceeded its memory limit and was reset.",
  "D1 DB exceeded its CPU time limit and was reset.",
].map((message) => new Error(`D1_ERROR: ${message}`));

/** Errors of invalid statements. After such an error, not even a repeatable query is sent again. */
const STATEMENT_ERRORS = [
  "D1_ERROR: no such table: orders: SQLITE_ERROR",
  "D1_ERROR: CHECK constraint failed: complete_is_boolean: SQLITE_CONSTRAINT",
  "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'",
  "D1_COLUMN_NOTFOUND: Column not found (id)",
  "D1_EXEC_ERROR: Error in line 1: SELECT: incomplete input: SQLITE_ERROR",
].map((message) => new Error(message));

test.each([...UNAVAILABLE, ...STATEMENT_ERRORS])(
  "the query is not sent again after %s",
  async (error) => {
    const isFault = STATEMENT_ERRORS.includes(error);
    const query = vi.fn<() => Promise<never>>().mockRejectedValue(error);
    const options = { isRead: true, isRepeatable: isFault };
    const failed = queries.run(query, options).catch((thrown: unknown) => thrown);
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
    if (isFault) expect(await failed).toBe(error);
    else expect(await failed).toMatchObject({ database: "orders", cause: error });
    expect(query).toHaveBeenCalledTimes(1);
  },
);
