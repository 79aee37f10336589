import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { Scheduler } from "fast-check";
import { vi } from "vitest";
import { parseConfig } from "../../../../src/rules/config.ts";
import * as db from "../../../../src/worker/db/availability.ts";
import { NearestReads } from "../../../../src/worker/db/nearest-reads.ts";
import { ApiError } from "../../../../src/worker/errors.ts";
import { keepHouse } from "../../../../src/worker/housekeeping.ts";
import { OrderLists } from "../../../../src/worker/orders/order-lists.ts";
import { DAY_MS, HOUR_MS } from "../../../support/clock.ts";
import { eventLines } from "../../../support/written-lines.ts";
import type { Change, History, Plan, Read, Reader } from "./history.ts";
import { beginRead } from "./history.ts";
import { requestList } from "./list-request.ts";
import * as store from "./order-database.ts";

const TIMEOUT_MS = 10_000;
const MAX_LAG_MS = 20_000;
const PATIENCE_MS = 60 * DAY_MS;
const SMALL = { groupsAhead: 2, bytesWithManifest: 600, groupBytes: 600, shortBytes: 20 };

/**
 * Plays a plan in two isolates, with their clients and a real SQLite database in a transaction. The
 * scheduler decides the order of steps; the clock advances only when no step is left.
 */
export async function play(database: DatabaseSync, scheduler: Scheduler, plan: Plan) {
  const isNearest = plan.nearest.length > 0;
  const history: History = { plan, moments: [], reads: [], away: [], faults: [] };
  const { moments, faults } = history;
  const isolates = [startIsolate(), startIsolate()] as const;
  const tags: string[] = [];
  /** By key, the moment of its last cancellation. */
  const cancellations = new Map<string, number>();
  let [keptMs, queries, nearReads] = [0, 0, 0];

  const step = (label: string) => scheduler.schedule(Promise.resolve(), label);
  const after = (ms: number, label: string) =>
    ms === 0 ? step(label) : new Promise<void>((resolve) => void setTimeout(resolve, ms));

  for (const id of plan.first) store.changeOrder(database, "place", id);
  remember();
  database.exec("SAVEPOINT saved"); // A restore rolls back to this savepoint.
  const changes = async () => {
    for (const change of plan.changes) await apply(change);
  };
  await finish([...plan.readers.map(read), changes()]);
  await finish([after(HOUR_MS, "all has settled")]);
  if (vi.getTimerCount() > 0) faults.push(`${vi.getTimerCount()} timers are left`);
  if (isolates.some(({ places }) => places.held > 0)) faults.push("bytes stay held");
  for (const { event, requestId, keyId } of eventLines()) {
    const one = history.reads[Number(requestId)];
    one?.events.push(String(event));
    if (one !== undefined && one.reader.key !== keyId) faults.push("the log names another key");
  }
  return history;

  function startIsolate() {
    const { memoryBytes, concurrency } = plan;
    const sizes = { ...SMALL, ...plan.places, memoryBytes, concurrency };
    const reads = new NearestReads(new db.DatabaseQueries("orders", TIMEOUT_MS), isNearest);
    return new OrderLists(reads, sizes);
  }

  async function finish(work: readonly Promise<void>[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).finally(() => (isDone = true));
    all.catch(() => undefined); // Awaited below, when the steps are done.
    while (!isDone) {
      await new Promise((resolve) => void setImmediate(resolve));
      if (Date.now() - keptMs >= 5 * HOUR_MS) {
        keptMs = Date.now();
        const ORDERS = store.d1Of(async (sql, values) =>
          store.prepare(database, sql).all(...values),
        );
        await keepHouse({ ORDERS, KEYS: store.d1Of(async () => []) }, parseConfig({}), new Date());
      }
      if (scheduler.count() > 0) await scheduler.waitNext(1);
      else if (Date.now() <= PATIENCE_MS) vi.advanceTimersToNextTimer();
      else return void faults.push("a request waits forever");
    }
    await all;
  }

  function remember(barrier: "bulk" | "restore" | null = null): void {
    const contents = isNearest ? database.serialize() : null;
    const list = store.listOf(database);
    moments.push({ list, ...store.versionOf(database), atMs: Date.now(), barrier, contents });
  }

  async function apply({ delayMs, do: kind, ids, awayMs }: Change): Promise<void> {
    await after(delayMs, kind);
    if (kind === "silence" || kind === "outage") {
      // A query that is not answered fails at its timeout.
      const isSilent = kind === "silence";
      const untilMs = Date.now() + (isSilent ? Math.max(awayMs, TIMEOUT_MS) : awayMs);
      history.away.push({ fromMs: Date.now(), untilMs, isSilent });
    } else if (kind === "bulk") {
      store.bulkChange(database, () => {
        for (const id of ids) store.changeOrder(database, "touch", id);
        for (const id of ids) store.changeOrder(database, "place", id);
      });
      remember(kind);
    } else if (kind === "restore") {
      database.exec("ROLLBACK TO saved");
      const { version } = store.versionOf(database);
      // A change that kept the version is known by its number alone, which only a clock that stands
      // still or is set back repeats after a restore.
      const isKept = moments.filter((one) => one.version === version).length > 1;
      if (isKept) vi.setSystemTime(Date.now() + 1);
      remember(kind);
    } else {
      const [id] = ids as [bigint];
      const isChanged = store.changeOrder(database, kind, id);
      remember();
      if (kind === "cancel" && isChanged) cancellations.set(String(id & 1n), moments.length - 1);
    }
  }

  async function read(reader: Reader): Promise<void> {
    const { key, isHead, tag, stopsAfter, pauseMs, staysMs } = reader;
    await after(reader.delayMs, "a request arrives");
    const isolate = isolates[reader.isolate]!;
    const begun = moments.length - 1;
    const known = typeof tag === "number" ? tags.at(tag) : (tag ?? undefined);
    const oldest = isNearest ? (cancellations.get(key) ?? 0) : begun;
    const one = beginRead({ reader, tag: known, oldest, begun });
    const requestId = String(history.reads.push(one) - 1);
    const end = (how: Read["end"]) => {
      Object.assign(one, { end: how, endedMs: Date.now(), ended: moments.length - 1 });
      if (one.version !== null && how === "whole") tags.push(one.version);
    };
    const admission = step("the limiter admits").then(() => {
      const { atMs = -Infinity } = moments[cancellations.get(key) ?? -1] ?? {};
      return { mayReadReplica: Date.now() - atMs > 3 * MAX_LAG_MS };
    });
    const waitUntil = (promise: Promise<unknown>) => {
      one.kept += 1;
      void promise.finally(() => (one.kept -= 1));
    };
    const method = isHead ? "HEAD" : "GET";
    const request = { method, keyId: key, requestId, tag: one.tag, admission, waitUntil };
    try {
      const { status, headers, body } = await requestList(isolate, d1(one), request);
      const version = headers.get("ETag")!.slice(1, -1);
      Object.assign(one, { version, answeredMs: Date.now(), takenMs: Date.now() });
      if (status === 304) return end("known");
      return isHead ? end("head") : await take(body!.getReader());
    } catch (error) {
      const isRefused = error instanceof ApiError;
      const own = history.reads.filter(
        (other) => other.reader.key === key && other.reader.isolate === reader.isolate,
      );
      if (isRefused && own.filter((other) => other.end === null).length === 1)
        faults.push("a key takes the lists from another");
      if (!isRefused && !(error instanceof db.DatabaseUnavailableError))
        faults.push(`failed: ${String(error)}`);
      end(isRefused ? "refused" : "failed");
    }

    async function take(stream: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
      void stream.closed.catch(() => end("cut off"));
      for (let pieces = 0; ; pieces += 1) {
        await after(pieces === stopsAfter ? staysMs : pauseMs, "a client reads");
        if (one.end !== null) return; // The list was cut off.
        if (pieces === stopsAfter) {
          end("left");
          return stream.cancel();
        }
        one.isWaiting = true;
        const piece = await stream.read().catch(() => null);
        if (piece === null) return;
        one.isWaiting = false;
        if (piece.done) return end("whole");
        one.takenMs = Date.now();
        one.received += new TextDecoder().decode(piece.value);
        const { held } = isolate.places;
        if (held > plan.places.placeBytes + plan.memoryBytes) faults.push("lists hold too much");
      }
    }
  }

  /** The databases of a request. Those of near reads lag by some changes. */
  function d1(one: Read): D1Database {
    const query = (isNear: boolean) => async (sql: string, values: SQLInputValue[]) => {
      const lag = isNear ? (plan.nearest[nearReads++ % plan.nearest.length] ?? null) : null;
      const hasFailed = plan.failing.includes(queries++);
      await step("a query begins");
      const away = history.away.find(({ untilMs }) => Date.now() < untilMs);
      if (away?.isSilent === true) return new Promise<never>(() => undefined);
      if (away !== undefined || hasFailed) throw new Error("D1_ERROR: Network connection lost.");
      const late = moments.findLastIndex(({ atMs }) => atMs <= Date.now() - MAX_LAG_MS);
      const seen = moments[Math.max(late, moments.length - 1 - (lag ?? 0), 0)]!;
      const source = lag === null ? database : store.replicaOf(seen.contents!);
      const rows = store.prepare(source, sql).all(...values);
      await step("a query ends");
      // The platform ends a request that has ended for its client and is not kept alive.
      if (one.end !== null && one.kept === 0) faults.push("the platform ends a query");
      return rows;
    };
    return store.d1Of(query(false), query(true));
  }
}
