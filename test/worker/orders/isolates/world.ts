import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { Scheduler } from "fast-check";
import { vi } from "vitest";
import {
  DatabaseQueries,
  DatabaseUnavailableError,
  MAX_ATTEMPTS,
} from "../../../../src/worker/db/availability.ts";
import { ApiError } from "../../../../src/worker/errors.ts";
import { ListPlaces } from "../../../../src/worker/orders/list-places.ts";
import { LIST_SIZES } from "../../../../src/worker/orders/list-sizes.ts";
import { type ListEvent, OrderLists } from "../../../../src/worker/orders/order-lists.ts";
import { HOUR_MS } from "../../../support/clock.ts";
import { expander } from "./expander.ts";
import {
  bulkChange,
  type Contents,
  contentsOf,
  deleteChangesBefore,
  fillReplica,
  listOf,
  openReplica,
  prepare,
  versionOf,
} from "./order-database.ts";

const TIMEOUT_MS = 10_000;
/** The longest time by which a replica lags behind the primary database. */
const MAX_LAG_MS = 20_000;
/** A test fails if a simulated request takes longer than this. */
const PATIENCE_MS = 24 * HOUR_MS;
const SIZES = {
  ...LIST_SIZES,
  shortBytes: 20,
  pieceBytes: 20,
  pieceOrders: 2,
  missingWithManifest: 2,
  groupSegments: 2,
  groupsAhead: 2,
};
/** Two lists of a key fill its part, or several longer ones with more segments in a query. */
const PLACES = { few: { maxQueries: 24, heldOrders: 26 }, more: { maxQueries: 6, heldOrders: 80 } };

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

/** A request, and the behaviour of its client. */
export interface Reader {
  readonly isolate: number;
  readonly key: number;
  readonly isHead: boolean;
  /** The index of the entity tag in `If-None-Match`, among the tags so far; `null` for no header. */
  readonly tag: number | null;
  /** The number of pieces after which the client leaves or stalls; `null` if it reads to the end. */
  readonly stopsAfter: number | null;
  readonly stops: "leave" | "stall";
  /** How long the client waits before each piece. */
  readonly pauseMs: number;
}

export type Change =
  | { readonly do: keyof typeof STATEMENTS | "evict"; readonly id: number }
  | { readonly do: "bulk"; readonly ids: readonly number[] }
  | { readonly do: "restore" | "keep house" }
  /** A replica receives some of the changes that it lacks. */
  | { readonly do: "follow"; readonly replica: number; readonly changes: number }
  /** No query is answered, or all fail with `error`, for so long. */
  | { readonly do: "away"; readonly ms: number; readonly error: string | null }
  | { readonly do: "wait"; readonly ms: number };

/** What happens to one query: only for a moment, so the next attempt may succeed. */
export type Blip = "pass" | "fail" | "lose the answer";

export interface Options {
  /** The databases of near reads, again and again: 0 and 1 are replicas, 2 is the primary. */
  readonly nearest: readonly number[];
  readonly isolates: number;
  readonly blips: readonly Blip[];
  readonly memoryBytes: number;
  readonly places: keyof typeof PLACES;
}

interface Moment {
  readonly list: string;
  readonly version: string;
  readonly atMs: number;
  readonly contents: Contents | null;
}

interface Isolate {
  readonly lists: OrderLists;
  readonly places: ListPlaces;
  readonly reads: Set<Read>;
}

/** What is known of one request. The invariants are functions of it. */
interface Read {
  readonly reader: Reader;
  readonly begunMs: number;
  /** No earlier moment may be answered. */
  readonly from: number;
  readonly barriers: number;
  readonly attempts: Map<string, number>;
  readonly events: ListEvent[];
  isStalled: boolean;
  takenMs: number;
  received: string;
}

const replica = openReplica();

/** Isolates, their clients and a real SQLite database. The scheduler determines the order of steps. */
export class World {
  /** Descriptions of wrong behaviour, which fail the test. */
  readonly faults: string[] = [];
  readonly ends: Record<string, number> = {};
  readonly #moments: Moment[] = [];
  readonly #scheduler: Scheduler;
  readonly #database: DatabaseSync;
  readonly #options: Options;
  readonly #blips: Blip[];
  readonly #isolates: Isolate[];
  readonly #tags: string[] = [];
  readonly #bodies = new Map<string, string>();
  /** By key, the newest moment that it knows: its cancellations, and by isolate its lists. */
  readonly #seen = new Map<string, number>();
  readonly #cancellations = new Map<number, number>();
  readonly #followed = [0, 0];
  readonly #stalled: (() => Promise<void>)[] = [];
  readonly #away: { fromMs: number; untilMs: number; error: string | null }[] = [];
  #pending = 0;
  #barriers = 0;
  #houseKeptMs = -Infinity;
  #nearestReads = 0;
  #promised = 0;

  constructor(database: DatabaseSync, scheduler: Scheduler, options: Options) {
    this.#scheduler = scheduler;
    this.#database = database;
    this.#options = options;
    this.#blips = [...options.blips];
    this.#isolates = Array.from({ length: options.isolates }, () => this.#isolate());
    this.#remember();
    prepare(database, "SAVEPOINT saved").run(); // A restore rolls back to this savepoint.
  }

  /** Runs scheduled steps until `work` is done. Advances the clock only when no step is left. */
  async run(work: readonly Promise<void>[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).then(() => (isDone = true));
    const begunMs = Date.now();
    for (;;) {
      await idle();
      if (isDone) break;
      if (this.#scheduler.count() > 0) await this.#scheduler.waitNext(1);
      else if (Date.now() - begunMs > PATIENCE_MS || vi.getTimerCount() === 0)
        return void this.faults.push("a request waits forever");
      else vi.advanceTimersToNextTimer();
    }
    await all;
  }

  /** Lets stalled clients leave and time pass. Then everything must have ended and be freed. */
  async expectFree(): Promise<void> {
    await this.run(this.#stalled.map((leave) => leave()));
    for (let turns = 0; turns < 1_000; turns += 1) {
      await idle();
      if (this.#scheduler.count() > 0) await this.#scheduler.waitNext(1);
      else if (vi.getTimerCount() > 0) vi.advanceTimersToNextTimer();
      else break;
    }
    if (this.#promised > 0) this.faults.push(`${this.#promised} promises are never settled`);
    for (const { places } of this.#isolates)
      if (places.held > 0) this.faults.push(`${places.held} orders stay held`);
  }

  async change(change: Change): Promise<void> {
    await this.#step(`change: ${JSON.stringify(change)}`);
    const run = (sql: string, ...values: SQLInputValue[]) =>
      prepare(this.#database, sql).run(...values);
    switch (change.do) {
      case "follow":
        this.#followed[change.replica]! += change.changes;
        return;
      case "evict":
        this.#isolates[change.id % this.#isolates.length] = this.#isolate();
        return;
      case "wait":
        // The queries that are under way take so long.
        if (this.#pending > 0) this.#goAway(change.ms, null);
        return void vi.advanceTimersByTime(change.ms);
      case "away":
        return this.#goAway(change.ms, change.error);
      case "bulk":
        this.#barriers += 1;
        bulkChange(this.#database, () => {
          for (const id of change.ids) run(STATEMENTS.touch, id);
          for (const id of change.ids) run(STATEMENTS.place, id);
        });
        break;
      case "restore":
        this.#barriers += 1;
        run("ROLLBACK TO saved");
        break;
      case "keep house": // Deletes the former states that no list of the last hour needs.
        this.#houseKeptMs = Date.now();
        deleteChangesBefore(this.#database, this.#houseKeptMs - HOUR_MS);
        break;
      case "place":
      case "insert":
      case "cancel":
      case "touch":
      case "replace": {
        const { changes } = run(STATEMENTS[change.do], change.id);
        this.#remember();
        if (change.do !== "cancel" || changes === 0) return;
        const sequence = Number(
          prepare(this.#database, "SELECT sequence FROM order_list").get()!["sequence"],
        );
        const key = change.id % 2;
        this.#isolates[0]!.lists.recordSeen(String(key), sequence);
        this.#cancellations.set(key, Math.max(sequence, this.#cancellations.get(key) ?? 0));
        this.#seen.set(`${key}`, this.#moments.length - 1);
        return;
      }
    }
    this.#remember();
  }

  async read(reader: Reader): Promise<void> {
    await this.#step("a request arrives");
    const isolate = this.#isolates[reader.isolate % this.#isolates.length]!;
    const tag = reader.tag === null ? undefined : this.#tags[reader.tag % this.#tags.length];
    const seen = [`${reader.key}`, `${reader.key} ${this.#isolates.indexOf(isolate)}`];
    // From the primary database, a list is as new as its request.
    const newest = this.#isNearest ? 0 : this.#moments.length - 1;
    const read: Read = {
      reader,
      begunMs: Date.now(),
      from: Math.max(newest, ...seen.map((name) => this.#seen.get(name) ?? 0)),
      barriers: this.#barriers,
      attempts: new Map(),
      events: [],
      isStalled: false,
      takenMs: Date.now(),
      received: "",
    };
    isolate.reads.add(read);
    try {
      const answer = await isolate.lists.answer({
        database: this.#d1(read),
        keyId: String(reader.key),
        preconditions: {
          ifMatch: null,
          ifNoneMatch: tag === undefined ? null : [{ value: tag, isWeak: false }],
        },
        isHead: reader.isHead,
        readsEarly: true,
        admission: this.#step("the limiter admits").then(
          () => this.#cancellations.get(reader.key) ?? 0,
        ),
        log: (event) => {
          read.events.push(event);
          const others = [...isolate.reads].filter((one) => one !== read);
          // A key that has no other list is never refused, whatever the other key does.
          if (
            event.startsWith("order_lists") &&
            !others.some((one) => one.reader.key === reader.key)
          )
            this.faults.push("a key without a list was refused one");
        },
        waitUntil: (promise) => {
          this.#promised += 1;
          const settled = () => void (this.#promised -= 1);
          promise.then(settled, settled);
        },
      });
      const { version, body, isKnown } = answer!;
      if (isKnown !== (version === tag)) this.faults.push("a 304 to a request without the version");
      if (body === null) return this.#expectMoment(read, "known", version, null);
      if (!(body instanceof ReadableStream)) {
        const text = typeof body === "string" ? body : new TextDecoder().decode(body);
        return this.#expectMoment(read, "whole", version, text);
      }
      await this.#readBody(read, body, version, isolate);
    } catch (error) {
      const isRefusal = error instanceof ApiError && read.events[0] === "order_lists_too_many";
      this.#end(isRefusal ? "refused" : "failed");
      if (isRefusal) return;
      const wasFaulty = this.#wasAway(read, 0) || this.#options.blips.length > 0;
      if (!(error instanceof DatabaseUnavailableError) || !wasFaulty)
        this.faults.push(`failed without a fault: ${String(error)}`);
    } finally {
      if (!read.isStalled) isolate.reads.delete(read);
    }
  }

  async #readBody(
    read: Read,
    body: ReadableStream<Uint8Array>,
    version: string,
    isolate: Isolate,
  ): Promise<void> {
    const { reader } = read;
    const stream = body.getReader();
    const leave = async () => {
      if (read.events.length > 0) return this.#expectCause(read);
      isolate.reads.delete(read);
      await stream.cancel();
      this.#end("left");
    };
    try {
      for (let pieces = 0; ; pieces += 1) {
        if (pieces === reader.stopsAfter) {
          if (reader.stops === "leave") return await leave();
          read.isStalled = true;
          stream.closed.catch(() => isolate.reads.delete(read));
          return void this.#stalled.push(leave);
        }
        if (reader.pauseMs > 0)
          await new Promise((resolve) => void setTimeout(resolve, reader.pauseMs));
        const { done, value } = await stream.read();
        if (done) break;
        read.takenMs = Date.now();
        read.received += new TextDecoder().decode(value);
        if (isolate.places.held > PLACES[this.#options.places].heldOrders)
          this.faults.push("lists hold too much");
        await this.#step("a piece arrives");
      }
    } catch {
      return this.#expectCause(read);
    }
    this.#expectMoment(read, "whole", version, read.received);
    this.#tags.push(version);
  }

  /** A list that was cut off must have one of four causes, which really happened since it began. */
  #expectCause(read: Read): void {
    const [event, ...others] = read.events;
    this.#end(String(event));
    const nowMs = Date.now();
    // A replica may be older than a barrier before the request.
    const barriers = this.#isNearest ? 0 : read.barriers;
    const begunMs = read.begunMs - (this.#isNearest ? MAX_LAG_MS : 0);
    // Housekeeping has removed what the list needs, because the list is older than that is kept.
    const hasAged = this.#houseKeptMs - begunMs >= HOUR_MS;
    if (event === "order_list_moved" && this.#barriers === barriers && hasAged) this.#end("aged");
    const hasMoved = this.#barriers > barriers || hasAged;
    const isTrue = {
      order_list_moved: hasMoved,
      order_list_stalled: nowMs - read.takenMs >= SIZES.stallMs,
      order_list_broken: this.#wasAway(read, 3_000),
    };
    if (others.length > 0 || !isTrue[event as keyof typeof isTrue])
      this.faults.push(`a list was cut off without a cause: ${read.events.join()}`);
    if (read.received.endsWith("]")) this.faults.push("a list that was cut off has its bracket");
  }

  #goAway(ms: number, error: string | null): void {
    // A query that is not answered fails at its timeout.
    const awayMs = error === null ? Math.max(ms, TIMEOUT_MS) : ms;
    this.#away.push({ fromMs: Date.now(), untilMs: Date.now() + awayMs, error });
  }

  /** Whether the database was away for at least `ms` since a request began. */
  #wasAway({ begunMs }: Read, ms: number): boolean {
    return this.#away.some(
      ({ fromMs, untilMs }) => untilMs >= begunMs && Math.min(untilMs, Date.now()) - fromMs >= ms,
    );
  }

  /** A response is the list at the moment of its request or a later one. One tag names one body. */
  #expectMoment(read: Read, end: string, version: string, text: string | null): void {
    this.#end(end);
    const from = this.#barriers > 0 && this.#isNearest ? 0 : read.from;
    const found = this.#moments.findIndex(
      (moment, index) =>
        index >= from && moment.version === version && (text === null || moment.list === text),
    );
    if (found === -1) this.faults.push(`no moment since ${from} had ${version}: ${text}`);
    if (text === null) return;
    if ((this.#bodies.get(version) ?? text) !== text)
      this.faults.push(`${version} names two bodies`);
    this.#bodies.set(version, text);
  }

  #end(end: string): void {
    this.ends[end] = (this.ends[end] ?? 0) + 1;
  }

  #remember(): void {
    this.#moments.push({
      list: listOf(this.#database),
      version: versionOf(this.#database),
      atMs: Date.now(),
      contents: this.#isNearest ? contentsOf(this.#database) : null,
    });
  }

  get #isNearest(): boolean {
    return this.#options.nearest.length > 0;
  }

  #isolate(): Isolate {
    const sizes = { ...SIZES, ...PLACES[this.#options.places] };
    const places = new ListPlaces(sizes);
    const lists = new OrderLists(new DatabaseQueries("orders", TIMEOUT_MS), expander, {
      sizes,
      memoryBytes: this.#options.memoryBytes,
      places,
      listReads: this.#isNearest ? "nearest" : "primary",
    });
    return { lists, places, reads: new Set() };
  }

  #step(label: string): Promise<void> {
    return this.#scheduler.schedule(Promise.resolve(), label);
  }

  #d1(read: Read): D1Database {
    const prepared = (place: number | null) => (sql: string) => ({
      bind: (...values: SQLInputValue[]) => ({
        all: async () => ({ results: await this.#query(sql, values, read, place), meta: {} }),
      }),
    });
    const { nearest } = this.#options;
    return {
      prepare: prepared(null),
      withSession: () => ({ prepare: prepared(nearest[this.#nearestReads++ % nearest.length]!) }),
    } as unknown as D1Database;
  }

  #replica(place: number): DatabaseSync {
    const late = this.#moments.findLastIndex(({ atMs }) => atMs <= Date.now() - MAX_LAG_MS);
    const followed = Math.max(late, this.#followed[place]!);
    this.#followed[place] = Math.min(this.#moments.length - 1, followed);
    fillReplica(replica, this.#moments[this.#followed[place]]!.contents!);
    return replica;
  }

  /** @param place the database of a near read: a replica or (2) the primary; `null` for no session. */
  async #query(sql: string, values: SQLInputValue[], read: Read, place: number | null) {
    const name = JSON.stringify([sql.length, values, place === null]);
    const attempts = (read.attempts.get(name) ?? 0) + 1;
    // The queries of a list that has begun are those of one request; a snapshot may be shared.
    if (sql.includes("former")) read.attempts.set(name, attempts);
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
