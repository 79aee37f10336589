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
import type { Change, Planned, Reader } from "./histories.ts";
import type { History, Moment, Read } from "./invariants.ts";
import {
  bulkChange,
  contentsOf,
  d1Of,
  fillReplica,
  keepHouseOf,
  listOf,
  openReplica,
  prepare,
  versionOf,
} from "./order-database.ts";

const TIMEOUT_MS = 10_000;
/** The longest time by which a replica lags behind the primary database. */
const MAX_LAG_MS = 20_000;
/** A test fails if a simulated request takes longer than this. */
const PATIENCE_MS = 60 * DAY_MS;
const SIZES = {
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

interface Isolate {
  readonly lists: OrderLists;
  readonly places: ListPlaces;
  readonly reads: Set<Read>;
  /** The newest moment that each key has received from this isolate. */
  readonly seen: Map<number, number>;
}

const replica = openReplica();

/** Isolates, their clients and a real SQLite database. The scheduler determines the order of steps. */
export class World {
  /** What the history does not show: requests that wait forever, and what is never freed. */
  readonly faults: string[] = [];
  readonly #moments: Moment[] = [];
  readonly #reads: Read[] = [];
  readonly #away: { fromMs: number; untilMs: number; error: string | null }[] = [];
  readonly #scheduler: Scheduler;
  readonly #database: DatabaseSync;
  readonly #plan: Planned;
  readonly #blips: Planned["blips"];
  readonly #isolates: Isolate[];
  readonly #tags: string[] = [];
  /** By key, the moment and the sequence number of its last cancellation. */
  readonly #cancellations = new Map<number, { moment: number; sequence: number }>();
  readonly #followed = [0, 0];
  readonly #stalled: (() => Promise<void>)[] = [];
  #keptMs = 0;
  #nearestReads = 0;
  #pending = 0;
  #promised = 0;

  constructor(database: DatabaseSync, scheduler: Scheduler, plan: Planned) {
    this.#scheduler = scheduler;
    this.#database = database;
    this.#plan = plan;
    this.#blips = [...plan.blips];
    this.#isolates = Array.from({ length: plan.isolates }, () => this.#isolate());
    this.#remember();
    prepare(database, "SAVEPOINT saved").run(); // A restore rolls back to this savepoint.
  }

  get history(): History {
    return {
      moments: this.#moments,
      reads: this.#reads,
      away: this.#away,
      isNearest: this.#isNearest,
      hasBlips: this.#plan.blips.length > 0,
      stallMs: SIZES.stallMs,
    };
  }

  /** Runs all rounds, lets stalled clients leave, and expects that everything ends and is freed. */
  async run(): Promise<void> {
    for (const { readers, changes } of this.#plan.rounds) {
      const inOrder = async () => {
        for (const next of changes) await this.#change(next);
      };
      await this.#finish([...readers.map((next) => this.#read(next)), inOrder()]);
    }
    await this.#finish(this.#stalled.map((leave) => leave()));
    await this.#finish([new Promise((resolve) => void setTimeout(resolve, HOUR_MS))]);
    if (this.#promised > 0) this.faults.push(`${this.#promised} promises are never settled`);
    if (vi.getTimerCount() > 0) this.faults.push(`${vi.getTimerCount()} timers are left`);
    for (const { places } of this.#isolates)
      if (places.held > 0) this.faults.push(`${places.held} orders stay held`);
  }

  /** Runs scheduled steps until `work` is done. Advances the clock only when no step is left. */
  async #finish(work: readonly Promise<void>[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).then(() => (isDone = true));
    const begunMs = Date.now();
    for (;;) {
      await idle();
      if (Date.now() - this.#keptMs >= 5 * HOUR_MS) {
        this.#keptMs = Date.now();
        await keepHouseOf(this.#database);
      }
      if (isDone) break;
      if (this.#scheduler.count() > 0) await this.#scheduler.waitNext(1);
      else if (Date.now() - begunMs > PATIENCE_MS || vi.getTimerCount() === 0)
        return void this.faults.push("a request waits forever");
      else vi.advanceTimersToNextTimer();
    }
    await all;
  }

  async #change(change: Change): Promise<void> {
    await this.#step(`change: ${JSON.stringify(change)}`);
    const run = (sql: string, ...values: SQLInputValue[]) =>
      prepare(this.#database, sql).run(...values);
    switch (change.do) {
      case "follow":
        this.#followed[change.replica]! += change.changes;
        return;
      case "evict":
        this.#isolates[change.isolate % this.#isolates.length] = this.#isolate();
        return;
      case "wait":
        // The queries that are under way take so long.
        if (this.#pending > 0) this.#goAway(change.ms, null);
        return void vi.advanceTimersByTime(change.ms);
      case "away":
        return this.#goAway(change.ms, change.error);
      case "bulk":
        bulkChange(this.#database, () => {
          for (const id of change.ids) run(STATEMENTS.touch, id);
          for (const id of change.ids) run(STATEMENTS.place, id);
        });
        return this.#remember(true);
      case "restore":
        run("ROLLBACK TO saved");
        return this.#remember(true);
      case "cancel":
      case "insert":
      case "place":
      case "replace":
      case "touch": {
        const { changes } = run(STATEMENTS[change.do], change.id);
        this.#remember();
        if (change.do !== "cancel" || changes === 0) return;
        const row = prepare(this.#database, "SELECT sequence FROM order_list").get();
        const sequence = Number(row!["sequence"]);
        const key = change.id % 2;
        this.#isolates[0]!.lists.recordSeen(String(key), sequence);
        this.#cancellations.set(key, { moment: this.#moments.length - 1, sequence });
      }
    }
  }

  async #read(reader: Reader): Promise<void> {
    await this.#step("a request arrives");
    const { key } = reader;
    const isolate = this.#isolates[reader.isolate % this.#isolates.length]!;
    const newest = this.#moments.length - 1;
    const seen = Math.max(this.#cancellations.get(key)?.moment ?? 0, isolate.seen.get(key) ?? 0);
    const read: Read = {
      reader,
      from: this.#isNearest ? seen : newest,
      begunMs: Date.now(),
      begun: newest,
      tag: reader.tag === null ? undefined : this.#tags[reader.tag % this.#tags.length],
      events: [],
      others: 0,
      received: "",
      takenMs: Date.now(),
      end: null,
      version: null,
      endMs: 0,
      endMoment: 0,
    };
    this.#reads.push(read);
    isolate.reads.add(read);
    try {
      const answer = await this.#ask(read, isolate);
      read.version = answer.version;
      if (answer.body instanceof ReadableStream)
        return await this.#take(read, isolate, answer.body);
      if (answer.body !== null) read.received = await new Response(answer.body).text();
      const isKnown = answer.isKnown ? "known" : "head";
      this.#end(read, isolate, answer.body === null ? isKnown : "whole");
    } catch (error) {
      const isRefusal = error instanceof ApiError && read.events[0] === "order_lists_too_many";
      if (isRefusal) return this.#end(read, isolate, "refused");
      this.#end(read, isolate, "failed");
      if (!(error instanceof DatabaseUnavailableError))
        this.faults.push(`failed: ${String(error)}`);
    }
  }

  async #ask(read: Read, isolate: Isolate) {
    const { key, isHead } = read.reader;
    const ifNoneMatch = read.tag === undefined ? null : [{ value: read.tag, isWeak: false }];
    const answer = await isolate.lists.answer({
      database: this.#d1(),
      keyId: String(key),
      preconditions: { ifMatch: null, ifNoneMatch },
      isHead,
      readsEarly: true,
      admission: this.#step("the limiter admits").then(
        () => this.#cancellations.get(key)?.sequence ?? 0,
      ),
      log: (event) => {
        read.events.push(event);
        const others = [...isolate.reads].filter((one) => one !== read && one.reader.key === key);
        read.others = others.length;
      },
      waitUntil: (promise) => {
        this.#promised += 1;
        const settled = () => void (this.#promised -= 1);
        promise.then(settled, settled);
      },
    });
    return answer!;
  }

  async #take(read: Read, isolate: Isolate, body: ReadableStream<Uint8Array>): Promise<void> {
    const { stopsAfter, stops, pauseMs } = read.reader;
    const stream = body.getReader();
    void stream.closed.catch(() => this.#end(read, isolate, "cut off"));
    const leave = async () => {
      if (read.end !== null) return;
      this.#end(read, isolate, "left");
      await stream.cancel();
    };
    try {
      for (let pieces = 0; ; pieces += 1) {
        if (pieces === stopsAfter && stops === "leave") return await leave();
        if (pieces === stopsAfter) return void this.#stalled.push(leave);
        if (pauseMs > 0) await new Promise((resolve) => void setTimeout(resolve, pauseMs));
        const { done, value } = await stream.read();
        if (done) break;
        read.takenMs = Date.now();
        read.received += new TextDecoder().decode(value);
        if (isolate.places.held > this.#plan.places.heldOrders)
          this.faults.push("lists hold too much");
        await this.#step("a piece arrives");
      }
    } catch {
      return; // The list was cut off.
    }
    this.#end(read, isolate, "whole");
    this.#tags.push(read.version!);
  }

  #end(read: Read, isolate: Isolate, end: Read["end"]): void {
    const endMoment = this.#moments.length - 1;
    Object.assign(read, { end, endMs: Date.now(), endMoment });
    isolate.reads.delete(read);
    if (read.version === null) return;
    const found = this.#moments.findIndex(({ version }) => version === read.version);
    const { key } = read.reader;
    isolate.seen.set(key, Math.max(found, isolate.seen.get(key) ?? 0));
  }

  #goAway(ms: number, error: string | null): void {
    // A query that is not answered fails at its timeout.
    const awayMs = error === null ? Math.max(ms, TIMEOUT_MS) : ms;
    this.#away.push({ fromMs: Date.now(), untilMs: Date.now() + awayMs, error });
  }

  #remember(isBarrier = false): void {
    this.#moments.push({
      list: listOf(this.#database),
      version: versionOf(this.#database),
      atMs: Date.now(),
      isBarrier,
      contents: this.#isNearest ? contentsOf(this.#database) : null,
    });
  }

  get #isNearest(): boolean {
    return this.#plan.nearest.length > 0;
  }

  #isolate(): Isolate {
    const sizes = { ...SIZES, ...this.#plan.places };
    const places = new ListPlaces(sizes);
    const lists = new OrderLists(new DatabaseQueries("orders", TIMEOUT_MS), expander, {
      sizes,
      memoryBytes: this.#plan.memoryBytes,
      places,
      listReads: this.#isNearest ? "nearest" : "primary",
    });
    return { lists, places, reads: new Set(), seen: new Map() };
  }

  #step(label: string): Promise<void> {
    return this.#scheduler.schedule(Promise.resolve(), label);
  }

  /** The database of one request. */
  #d1(): D1Database {
    const attempts = new Map<string, number>();
    const { nearest } = this.#plan;
    return d1Of(
      (sql, values) => this.#query(sql, values, attempts, null),
      (sql, values) =>
        this.#query(sql, values, attempts, nearest[this.#nearestReads++ % nearest.length]!),
    );
  }

  #replica(place: number): DatabaseSync {
    const late = this.#moments.findLastIndex(({ atMs }) => atMs <= Date.now() - MAX_LAG_MS);
    const followed = Math.max(late, this.#followed[place]!);
    this.#followed[place] = Math.min(this.#moments.length - 1, followed);
    fillReplica(replica, this.#moments[this.#followed[place]]!.contents!);
    return replica;
  }

  /** @param place the database of a near read: a replica or (2) the primary; `null` for no session. */
  async #query(
    sql: string,
    values: SQLInputValue[],
    attemptsOf: Map<string, number>,
    place: number | null,
  ) {
    const name = JSON.stringify([sql.length, values, place === null]);
    const attempts = (attemptsOf.get(name) ?? 0) + 1;
    // The queries of a list that has begun are those of one request; a snapshot may be shared.
    if (sql.includes("former")) attemptsOf.set(name, attempts);
    if (attempts > MAX_ATTEMPTS) this.faults.push("a query was sent too often");
    // A query has at most three blips in sequence, so they never cut a list off.
    const blip = attempts > 3 ? "pass" : (this.#blips.shift() ?? "pass");
    this.#pending += 1;
    await this.#step("a query begins").finally(() => (this.#pending -= 1));
    const away = this.#away.find(({ untilMs }) => Date.now() < untilMs);
    if (away?.error === null) return new Promise<never>(() => undefined);
    if (away !== undefined) throw new Error(away.error);
    if (blip === "fail") throw new Error("D1_ERROR: Network connection lost.");
    const isReplica = place === 0 || place === 1;
    const database = isReplica ? this.#replica(place) : this.#database;
    const rows = prepare(database, sql).all(...values);
    this.#pending += 1;
    await this.#step("a query ends").finally(() => (this.#pending -= 1));
    if (blip === "lose the answer") throw new Error("D1_ERROR: Network connection lost.");
    return rows;
  }
}

function idle(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
