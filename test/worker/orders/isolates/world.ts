import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { Scheduler } from "fast-check";
import { vi } from "vitest";
import {
  DatabaseQueries,
  DatabaseUnavailableError,
  MAX_ATTEMPTS,
} from "../../../../src/worker/db/availability.ts";
import { ApiError } from "../../../../src/worker/errors.ts";
import { LIST_SIZES, ListPlaces } from "../../../../src/worker/orders/list-stream.ts";
import { OrderLists } from "../../../../src/worker/orders/order-lists.ts";
import { DAY_MS, HOUR_MS } from "../../../support/clock.ts";
import { expander } from "./expander.ts";
import type { Change, Plan, Reader } from "./histories.ts";
import type { History, Read } from "./invariants.ts";
import {
  bulkChange,
  contentsOf,
  d1Of,
  keepHouseOf,
  listOf,
  prepare,
  replicaOf,
  versionOf,
} from "./order-database.ts";

const TIMEOUT_MS = 10_000;
/** The longest time by which a replica lags behind the primary database. */
const MAX_LAG_MS = 20_000;
/** A test fails if a simulated request takes longer than this. */
const PATIENCE_MS = 60 * DAY_MS;
const SMALL = {
  ...LIST_SIZES,
  shortBytes: 20,
  pieceBytes: 20,
  pieceOrders: 2,
  missingWithManifest: 2,
  groupSegments: 2,
  groupsAhead: 2,
};

const STATEMENTS = {
  place: `INSERT INTO orders (id, pet_id, ship_date, complete)
    SELECT ?1, -?1, strftime('%Y-%m-%dT%H:%M:%fZ', ?1 * 1e8, 'unixepoch'), ?1 % 2
    WHERE ?1 NOT IN (SELECT id FROM orders)`,
  insert: "INSERT INTO orders (id, status) VALUES (?1, 'shipped') ON CONFLICT DO NOTHING",
  cancel: "DELETE FROM orders WHERE id = ?1 AND status = 'pending'",
  touch: "UPDATE orders SET quantity = ifnull(quantity, 0) + 1 WHERE id = ?1",
  replace: `INSERT OR REPLACE INTO orders (id, quantity)
    SELECT ?1, 5 WHERE ?1 NOT IN (SELECT id FROM orders WHERE status = 'shipped')`,
};

/**
 * Plays a plan in isolates, with their clients and a real SQLite database in a transaction. The
 * scheduler decides the order of steps; the clock advances only when no step is left.
 */
export async function play(
  database: DatabaseSync,
  scheduler: Scheduler,
  plan: Plan,
): Promise<History> {
  const isNearest = plan.nearest.length > 0;
  const hasBlips = plan.blips.length > 0;
  const history: History = { moments: [], reads: [], away: [], faults: [], isNearest, hasBlips };
  const { moments, faults } = history;
  const blips = [...plan.blips];
  const isolates = Array.from({ length: plan.isolates }, startIsolate);
  const tags: string[] = [];
  /** By key, the moment and the sequence number of its last cancellation. */
  const cancellations = new Map<string, { moment: number; sequence: number }>();
  /** The moment that each replica shows. */
  const followed: [number, number] = [0, 0];
  const stalled: (() => Promise<void>)[] = [];
  let [keptMs, nearestReads, pending, promised] = [0, 0, 0, 0];

  const run = (sql: string, ...values: SQLInputValue[]) => prepare(database, sql).run(...values);
  const step = (label: string) => scheduler.schedule(Promise.resolve(), label);

  for (const id of plan.first) run("INSERT INTO orders (id) VALUES (?)", id);
  remember();
  run("SAVEPOINT saved"); // A restore rolls back to this savepoint.
  for (const { readers, changes } of plan.rounds) {
    const inOrder = async () => {
      for (const next of changes) await apply(next);
    };
    await finish([...readers.map(read), inOrder()]);
  }
  await finish(stalled.map((leave) => leave()));
  await finish([new Promise((resolve) => void setTimeout(resolve, HOUR_MS))]);
  if (promised > 0) faults.push(`${promised} promises are never settled`);
  if (vi.getTimerCount() > 0) faults.push(`${vi.getTimerCount()} timers are left`);
  if (isolates.some(({ places }) => places.held > 0)) faults.push("orders stay held");
  return history;

  function startIsolate() {
    const sizes = { ...SMALL, ...plan.places };
    const places = new ListPlaces(sizes);
    const listReads = isNearest ? "nearest" : "primary";
    const options = { sizes, memoryBytes: plan.memoryBytes, places, listReads } as const;
    const lists = new OrderLists(new DatabaseQueries("orders", TIMEOUT_MS), expander, options);
    /** The requests under way, and the newest moment that each key has received. */
    return { lists, places, reads: new Set<Read>(), seen: new Map<string, number>() };
  }

  /** Runs scheduled steps until `work` is done. */
  async function finish(work: readonly Promise<void>[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).then(() => (isDone = true));
    const begunMs = Date.now();
    for (;;) {
      await new Promise((resolve) => void setImmediate(resolve));
      if (Date.now() - keptMs >= 5 * HOUR_MS) {
        keptMs = Date.now();
        await keepHouseOf(database);
      }
      if (isDone) return void (await all);
      if (scheduler.count() > 0) await scheduler.waitNext(1);
      else if (Date.now() - begunMs > PATIENCE_MS || vi.getTimerCount() === 0)
        return void faults.push("a request waits forever");
      else vi.advanceTimersToNextTimer();
    }
  }

  function remember(isBarrier = false): void {
    const contents = isNearest ? contentsOf(database) : null;
    const [list, version] = [listOf(database), versionOf(database)];
    moments.push({ list, version, atMs: Date.now(), isBarrier, contents });
  }

  function goAway(ms: number, error: string | null): void {
    // A query that is not answered fails at its timeout.
    const awayMs = error === null ? Math.max(ms, TIMEOUT_MS) : ms;
    history.away.push({ fromMs: Date.now(), untilMs: Date.now() + awayMs, error });
  }

  async function apply(change: Change): Promise<void> {
    await step(`change: ${JSON.stringify(change)}`);
    switch (change.do) {
      case "follow":
        followed[change.replica]! += change.changes;
        return;
      case "evict":
        isolates[change.isolate % isolates.length] = startIsolate();
        return;
      case "wait":
        // The queries that are under way take so long.
        if (pending > 0) goAway(change.ms, null);
        return void vi.advanceTimersByTime(change.ms);
      case "away":
        return goAway(change.ms, change.error);
      case "bulk":
        bulkChange(database, () => {
          for (const id of change.ids) run(STATEMENTS.touch, id);
          for (const id of change.ids) run(STATEMENTS.place, id);
        });
        return remember(true);
      case "restore":
        run("ROLLBACK TO saved");
        return remember(true);
      case "cancel":
      case "insert":
      case "place":
      case "replace":
      case "touch": {
        const { changes } = run(STATEMENTS[change.do], change.id);
        remember();
        if (change.do !== "cancel" || changes === 0) return;
        const sequence = Number(
          prepare(database, "SELECT sequence FROM order_list").get()!["sequence"],
        );
        const key = String(change.id % 2);
        isolates[0]!.lists.recordSeen(key, sequence);
        cancellations.set(key, { moment: moments.length - 1, sequence });
      }
    }
  }

  async function read(reader: Reader): Promise<void> {
    await step("a request arrives");
    const { key, stopsAfter, stops, pauseMs } = reader;
    const isolate = isolates[reader.isolate % isolates.length]!;
    const seen = Math.max(cancellations.get(key)?.moment ?? 0, isolate.seen.get(key) ?? 0);
    const begun = moments.length - 1;
    const one: Read = {
      reader,
      tag: reader.tag === null ? undefined : tags[reader.tag % tags.length],
      from: isNearest ? seen : begun,
      begun,
      ended: 0,
      begunMs: Date.now(),
      takenMs: Date.now(),
      endedMs: 0,
      events: [],
      end: null,
      version: null,
      received: "",
    };
    history.reads.push(one);
    isolate.reads.add(one);
    const end = (how: Read["end"]) => {
      Object.assign(one, { end: how, endedMs: Date.now(), ended: moments.length - 1 });
      isolate.reads.delete(one);
      if (one.version === null) return;
      if (how === "whole") tags.push(one.version);
      const found = moments.findIndex(({ version }) => version === one.version);
      isolate.seen.set(key, Math.max(found, isolate.seen.get(key) ?? 0));
    };
    try {
      const answer = (await isolate.lists.answer(requestOf(one, isolate)))!;
      one.version = answer.version;
      if (answer.body instanceof ReadableStream) return await take(answer.body.getReader());
      if (answer.body !== null) one.received = await new Response(answer.body).text();
      const isKnown = answer.isKnown ? "known" : "head";
      end(answer.body === null ? isKnown : "whole");
    } catch (error) {
      const isRefused = error instanceof ApiError && one.events[0] === "order_lists_too_many";
      end(isRefused ? "refused" : "failed");
      if (!isRefused && !(error instanceof DatabaseUnavailableError))
        faults.push(`failed: ${String(error)}`);
    }

    async function take(stream: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
      void stream.closed.catch(() => end("cut off"));
      const leave = async () => {
        if (one.end !== null) return;
        end("left");
        await stream.cancel();
      };
      for (let pieces = 0; ; pieces += 1) {
        if (pieces === stopsAfter && stops === "leave") return leave();
        if (pieces === stopsAfter) return void stalled.push(leave);
        if (pauseMs > 0) await new Promise((resolve) => void setTimeout(resolve, pauseMs));
        const piece = await stream.read().catch(() => null);
        if (piece === null) return; // The list was cut off.
        if (piece.done) return end("whole");
        one.takenMs = Date.now();
        one.received += new TextDecoder().decode(piece.value);
        if (isolate.places.held > plan.places.heldOrders) faults.push("lists hold too much");
        await step("a piece arrives");
      }
    }
  }

  function requestOf(one: Read, isolate: ReturnType<typeof startIsolate>) {
    const { key, isHead } = one.reader;
    const attempts = new Map<string, number>();
    const nearest = () => plan.nearest[nearestReads++ % plan.nearest.length]!;
    return {
      database: d1Of(
        (sql, values) => query(sql, values, attempts, null),
        (sql, values) => query(sql, values, attempts, nearest()),
      ),
      keyId: key,
      preconditions: {
        ifMatch: null,
        ifNoneMatch: one.tag === undefined ? null : [{ value: one.tag, isWeak: false }],
      },
      isHead,
      readsEarly: true,
      admission: step("the limiter admits").then(() => cancellations.get(key)?.sequence ?? 0),
      log: (event: Read["events"][number]) => {
        one.events.push(event);
        const others = [...isolate.reads].filter(({ reader }) => reader.key === key);
        if (event === "order_lists_too_many" && others.length === 1)
          faults.push("a key takes the lists from another");
      },
      waitUntil: (promise: Promise<unknown>) => {
        promised += 1;
        const settled = () => void (promised -= 1);
        promise.then(settled, settled);
      },
    };
  }

  /** @param place the database of a near read: a replica or (2) the primary; `null` for no session. */
  async function query(
    sql: string,
    values: SQLInputValue[],
    attemptsOf: Map<string, number>,
    place: number | null,
  ) {
    const name = JSON.stringify([sql.length, values, place === null]);
    const attempts = (attemptsOf.get(name) ?? 0) + 1;
    // The queries of a list that has begun are those of one request; a snapshot may be shared.
    if (sql.includes("former")) attemptsOf.set(name, attempts);
    if (attempts > MAX_ATTEMPTS) faults.push("a query was sent too often");
    // A query has at most three blips in sequence, so they never cut a list off.
    const blip = attempts > 3 ? "pass" : (blips.shift() ?? "pass");
    pending += 1;
    await step("a query begins").finally(() => (pending -= 1));
    const away = history.away.find(({ untilMs }) => Date.now() < untilMs);
    if (away?.error === null) return new Promise<never>(() => undefined);
    if (away !== undefined) throw new Error(away.error);
    if (blip === "fail") throw new Error("D1_ERROR: Network connection lost.");
    const rows = prepare(place === 0 || place === 1 ? replica(place) : database, sql).all(
      ...values,
    );
    pending += 1;
    await step("a query ends").finally(() => (pending -= 1));
    if (blip === "lose the answer") throw new Error("D1_ERROR: Network connection lost.");
    return rows;
  }

  function replica(place: 0 | 1): DatabaseSync {
    const late = moments.findLastIndex(({ atMs }) => atMs <= Date.now() - MAX_LAG_MS);
    followed[place] = Math.min(moments.length - 1, Math.max(late, followed[place]));
    return replicaOf(moments[followed[place]]!.contents!);
  }
}
