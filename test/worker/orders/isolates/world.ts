import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { Scheduler } from "fast-check";
import { vi } from "vitest";
import { assembleExpansion } from "../../../../src/operator/build/expansion.ts";
import {
  DatabaseQueries,
  DatabaseUnavailableError,
} from "../../../../src/worker/db/availability.ts";
import { ApiError } from "../../../../src/worker/errors.ts";
import { DELETE_ORDER_CHANGES } from "../../../../src/worker/housekeeping.ts";
import type { Manifest, Snapshot } from "../../../../src/worker/orders/list-queries.ts";
import { ListsUnderWay, type Reservation } from "../../../../src/worker/orders/lists-under-way.ts";
import {
  type ListEvent,
  type ListRequest,
  OrderLists,
} from "../../../../src/worker/orders/order-lists.ts";
import { SegmentMemory } from "../../../../src/worker/orders/segment-memory.ts";
import { type Expansion, OrderExpander } from "../../../../src/worker/orders/order-expander.ts";
import { MAX_SHORTHAND_BYTES } from "../../../../src/worker/orders/order-json.ts";
import {
  bulkChange,
  type Contents,
  contentsOf,
  fillReplica,
  listOf,
  MAX_SEGMENT_ORDERS,
  openReplica,
  prepare,
  versionOf,
} from "./order-database.ts";
import { HOUR_MS } from "../../../support/clock.ts";

export type QueryFault = "pass" | "fail" | "lose the answer" | "hang" | "our fault";

/** The global `WebAssembly`, with a type of its own, because the types of Node lack it. */
const { WebAssembly } = globalThis as unknown as {
  WebAssembly: {
    instantiate(bytes: Uint8Array): Promise<{ instance: { exports: Expansion } }>;
  };
};
const { instance } = await WebAssembly.instantiate(await assembleExpansion());
export const expander = new OrderExpander(instance.exports);

const TIMEOUT_MS = 1_000;
const STALL_MS = 60_000;
const SLICE_BYTES = 20;
/** The minimum and the maximum memory for the queries of a list, in bytes. */
const QUERY_BYTES = [400, 2 * MAX_SEGMENT_ORDERS * MAX_SHORTHAND_BYTES] as const;
/** The longest time by which a replica lags behind the primary database. */
const MAX_LAG_MS = 10_000;
/** A test fails if a simulated request takes longer than this. */
const PATIENCE_MS = 24 * HOUR_MS;

const STATEMENTS = {
  place: `INSERT INTO orders (id, pet_id, ship_date, complete)
    SELECT ?1, -?1, strftime('%Y-%m-%dT%H:%M:%fZ', ?1 * 1e8, 'unixepoch'), ?1 % 2
    WHERE ?1 NOT IN (SELECT id FROM orders)`,
  insert: "INSERT INTO orders (id, status) VALUES (?1, 'shipped') ON CONFLICT DO NOTHING",
  cancel: "DELETE FROM orders WHERE id = ?1 AND status = 'pending'",
  ship: "UPDATE orders SET status = 'shipped' WHERE id = ?1",
  touch: `UPDATE orders SET pet_id = ifnull(pet_id, 0) + 1, quantity = ifnull(quantity, 0) + 1,
    ship_date = strftime('%Y-%m-%dT%H:%M:%fZ', ifnull(quantity, 0), 'unixepoch'),
    complete = 1 - ifnull(complete, 1) WHERE id = ?1`,
  replace: `INSERT OR REPLACE INTO orders (id, quantity)
    SELECT ?1, 5 WHERE ?1 NOT IN (SELECT id FROM orders WHERE status = 'shipped')`,
};

/** A request and the behaviour of its client. */
export interface Reader {
  readonly isolate: number;
  readonly key: number;
  readonly isHead: boolean;
  /** The index of the entity tag in `If-None-Match`, among the tags so far; `null` for no header. */
  readonly tag: number | null;
  /** The number of pieces after which the client stops; `null` if it reads the whole list. */
  readonly stopsAfter: number | null;
  /** After `stopsAfter` pieces, the client disconnects (`leave`) or stops reading (`stall`). */
  readonly stops: "leave" | "stall";
  /** How long the client waits before each piece. */
  readonly pauseMs: number;
}

export type Change =
  | {
      readonly do: keyof typeof STATEMENTS | "evict";
      readonly id: number;
    }
  /** A replica receives some of the changes that it lacks. */
  | { readonly do: "follow"; readonly replica: number; readonly changes: number }
  | { readonly do: "import"; readonly ids: readonly number[] }
  | { readonly do: "bulk"; readonly ids: readonly number[] }
  | { readonly do: "restore" | "keep house" }
  | { readonly do: "wait"; readonly ms: number };

/** The list and its version after one change of the database. */
interface Moment {
  readonly list: string;
  readonly version: string;
  readonly atMs: number;
  /** The number of bulk changes and restores until this moment. */
  readonly barriers: number;
  /** The rows of the database; `null` if there are no replicas. */
  readonly contents: Contents | null;
}

export interface WorldOptions {
  /**
   * With `LIST_READS=nearest`, each read uses the next of these databases, again and again: 0 and 1
   * are replicas, 2 is the primary. If empty, all reads use the primary.
   */
  readonly nearest: readonly number[];
  readonly isolates: number;
  /** The maximum number of snapshot queries that an isolate runs at the same time. */
  readonly concurrency: number;
  readonly queryFaults: readonly QueryFault[];
  readonly memoryBytes: number;
  readonly underWayBytes: number;
}

class ObservedUnderWay extends ListsUnderWay {
  /** Whether the last attempt to reserve more memory for a list succeeded. */
  hasGrown = false;

  override reserve(bytes: number): Reservation | null {
    const reservation = super.reserve(bytes);
    if (reservation === null) return null;
    return { ...reservation, grow: (more) => (this.hasGrown = reservation.grow(more)) };
  }
}

class ObservedMemory extends SegmentMemory {
  /** Whether an older manifest has replaced a newer one. */
  hasRunBack = false;

  override setManifest(manifest: Manifest): void {
    this.hasRunBack ||= manifest.sequence < (this.manifest?.sequence ?? 0);
    super.setManifest(manifest);
  }
}

interface Isolate {
  /** By key, the latest moment whose list the key has received. */
  readonly received: Map<number, number>;
  readonly memory: ObservedMemory;
  readonly lists: OrderLists;
  readonly underWay: ObservedUnderWay;
  readonly sending: Set<Sending>;
}

const replica = openReplica();
let replicaContents: Contents | null = null;

interface Sending {
  readonly reader: Reader;
  readonly isolate: Isolate;
  readonly begun: Now;
  /** By version, the text of each segment that a query returned for this list. */
  readonly texts: Map<string, string>;
  received: string;
  /** The logged events of this list. After the first one, the service has cut the list off. */
  readonly events: ListEvent[];
}

/** Isolates, their clients and a real SQLite database. The scheduler determines the order of steps. */
export class World {
  readonly moments: Moment[] = [];
  /** Descriptions of wrong behaviour, which fail the test. */
  readonly faults: string[] = [];
  readonly answers = {
    whole: 0,
    "whole after a change": 0,
    known: 0,
    failed: 0,
    refused: 0,
    left: 0,
    order_list_moved: 0,
    order_list_stalled: 0,
    order_list_broken: 0,
  };
  readonly #scheduler: Scheduler;
  readonly #database: DatabaseSync;
  readonly #options: WorldOptions;
  readonly #isolates: Isolate[];
  readonly #queryFaults: QueryFault[];
  readonly #bodies = new Map<string, string>();
  readonly #tags: string[] = [];
  /** The number of query faults so far, plus the waits that made a query time out. */
  #faulty = 0;
  /** The number of pieces that clients wait for. */
  #awaitedPieces = 0;
  /** The number of times the clock advanced by `STALL_MS` or more, which can cut off lists. */
  #stalls = 0;
  #barriers = 0;
  /** The index of the last moment that each replica has received. */
  readonly #followed = [0, 0];
  /** By key, the sequence number of the last cancellation that the key's Durable Object knows. */
  readonly #cancellations = new Map<number, number>();
  /** The moment of each key's last cancellation that was answered. */
  readonly #cancelled = new Map<number, number>();
  #nearestReads = 0;
  /** The index of the moment of the last restore. */
  #restored = 0;
  #pendingQueries = 0;
  /** The number of promises passed to `waitUntil` that have not settled. */
  #promised = 0;

  constructor(database: DatabaseSync, scheduler: Scheduler, options: WorldOptions) {
    this.#scheduler = scheduler;
    this.#database = database;
    this.#options = options;
    this.#queryFaults = [...options.queryFaults];
    this.#isolates = Array.from({ length: options.isolates }, () => this.#isolate());
    this.#remember();
    // A restore rolls back to this savepoint.
    prepare(database, "SAVEPOINT saved").run();
  }

  /** Runs scheduled steps until `work` is done. Advances the clock only when no step is left. */
  async run(work: readonly Promise<void>[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).then(() => (isDone = true));
    const begunMs = Date.now();
    for (;;) {
      await idle();
      if (isDone) break;
      if (this.#scheduler.count() > 0) {
        await this.#scheduler.waitNext(1);
      } else if (Date.now() - begunMs > PATIENCE_MS || vi.getTimerCount() === 0) {
        this.faults.push("a request waits forever");
        return;
      } else {
        vi.advanceTimersToNextTimer();
      }
    }
    await all;
  }

  /** Lets time pass after all requests. Then expects no open promise, reservation or list. */
  async expectFree(): Promise<void> {
    for (let turns = 0; turns < 1_000; turns += 1) {
      await idle();
      if (this.#scheduler.count() > 0) await this.#scheduler.waitNext(1);
      else if (vi.getTimerCount() > 0) vi.advanceTimersToNextTimer();
      else break;
    }
    if (this.#promised > 0) this.faults.push(`${this.#promised} promises are never settled`);
    for (const { underWay, sending } of this.#isolates) {
      if (underWay.bytes > 0) this.faults.push(`${underWay.bytes} bytes stay reserved`);
      if (sending.size > 0) this.faults.push(`${sending.size} lists never end`);
    }
  }

  async change(change: Change): Promise<void> {
    await this.#step(`change: ${JSON.stringify(change)}`);
    const run = (sql: string, ...values: SQLInputValue[]) =>
      prepare(this.#database, sql).run(...values);
    switch (change.do) {
      case "follow":
        this.#followed[change.replica]! += change.changes;
        return;
      case "import":
        // A small import leaves the triggers on; `bulk` turns them off.
        run(
          "INSERT INTO orders (id) SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM orders) GROUP BY value",
          JSON.stringify(change.ids),
        );
        break;
      case "bulk":
        this.#barriers += 1;
        bulkChange(this.#database, () => {
          const ids = JSON.stringify(change.ids);
          run("UPDATE orders SET quantity = 7 WHERE id IN (SELECT value FROM json_each(?))", ids);
          for (const id of change.ids) run(STATEMENTS.place, id);
        });
        break;
      case "restore":
        this.#barriers += 1;
        run("ROLLBACK TO saved");
        this.#restored = this.moments.length;
        break;
      case "keep house":
        // Deletes the former states that no list of the last hour needs.
        run(DELETE_ORDER_CHANGES.sql, Date.now() - HOUR_MS, 1_000);
        break;
      case "evict":
        this.#isolates[this.#isolates.indexOf(this.#isolateOf(change.id))] = this.#isolate();
        return;
      case "wait":
        return this.#wait(change.ms);
      case "place":
      case "insert":
      case "cancel":
      case "ship":
      case "touch":
      case "replace": {
        const { changes } = run(STATEMENTS[change.do], change.id);
        if (change.do !== "cancel") break;
        this.#remember();
        const key = change.id % 2;
        return this.#answerCancellation(key, this.#isolateOf(change.id), changes > 0);
      }
    }
    this.#remember();
  }

  async read(reader: Reader): Promise<void> {
    await this.#step("a request arrives");
    const isolate = this.#isolateOf(reader.isolate);
    const { lists, underWay } = isolate;
    const tag =
      reader.tag === null ? undefined : this.#tags[reader.tag % Math.max(1, this.#tags.length)];
    const begun = this.#begun(isolate, reader.key);
    const events: ListEvent[] = [];
    const sending: Sending = { reader, isolate, begun, texts: new Map(), received: "", events };
    const request = {
      keyId: String(reader.key),
      database: this.#d1(sending),
      knownVersions: tag === undefined ? [] : [tag],
      log: (event: ListEvent) => void events.push(event),
      waitUntil: (promise: Promise<unknown>) => {
        this.#promised += 1;
        const settled = () => void (this.#promised -= 1);
        promise.then(settled, settled);
      },
    };
    try {
      const readAhead = lists.read(request);
      readAhead.catch(() => undefined);
      await this.#step("the limiter admits");
      const cancellation = this.#cancellations.get(reader.key) ?? 0;
      const snapshot = await lists.renew(await readAhead, request, cancellation);
      this.#receive(isolate, reader.key, snapshot.version);
      const answer = this.#answer(lists, snapshot, request, underWay.bytes > 0);
      if (answer === null) return;
      const { version, body } = answer;
      if ((body === null) !== (version === tag))
        this.faults.push("a 304 to a request without the version");
      if (body === null || reader.isHead) {
        if (body instanceof ReadableStream) await body.cancel();
        this.answers.known += 1;
        return this.#expectMoment(begun.moment, version, null);
      }
      if (!(body instanceof ReadableStream)) {
        this.answers.whole += 1;
        const text = typeof body === "string" ? body : new TextDecoder().decode(body);
        return this.#expectMoment(begun.moment, version, text);
      }
      if (underWay.bytes < 2 * SLICE_BYTES + QUERY_BYTES[0])
        this.faults.push(`only ${underWay.bytes} bytes are reserved for a list`);
      if (underWay.hasGrown)
        for (const [read, text] of snapshot.texts) sending.texts.set(read, text);
      isolate.sending.add(sending);
      await this.#readBody(sending, body, version);
    } catch (error) {
      this.answers.failed += 1;
      const isHonest =
        error instanceof DatabaseUnavailableError || String(error).includes("SQLITE_ERROR");
      if (!isHonest) this.faults.push(`threw ${String(error)}`);
      if (this.#faulty === begun.faulty && !this.#isPaused(error))
        this.faults.push(`failed without a fault: ${String(error)}`);
    }
  }

  #answer(
    lists: OrderLists,
    snapshot: Snapshot,
    request: ListRequest,
    isTight: boolean,
  ): ReturnType<OrderLists["answer"]> | null {
    try {
      return lists.answer(snapshot, request);
    } catch (error) {
      this.answers.refused += 1;
      if (!(error instanceof ApiError) || !isTight)
        this.faults.push(`refused although no other list is sent: ${String(error)}`);
      return null;
    }
  }

  #wait(ms: number): void {
    // No client waits longer than `TIMEOUT_MS` for a piece, because the piece's queries time out.
    const passedMs = this.#awaitedPieces > 0 ? Math.min(ms, TIMEOUT_MS) : ms;
    if (this.#pendingQueries > 0 && passedMs >= TIMEOUT_MS) this.#faulty += 1;
    if (passedMs >= STALL_MS) this.#stalls += 1;
    vi.advanceTimersByTime(passedMs);
  }

  async #readBody(
    sending: Sending,
    body: ReadableStream<Uint8Array>,
    version: string,
  ): Promise<void> {
    const { reader, isolate, begun } = sending;
    const stream = body.getReader();
    const whole = () => {
      this.#end(sending, "whole");
      if (this.#now().moment > begun.moment) this.answers["whole after a change"] += 1;
      this.#expectMoment(begun.moment, version, sending.received);
      this.#tags.push(version);
    };
    try {
      for (let pieces = 0; ; pieces += 1) {
        if (pieces === reader.stopsAfter) {
          if (reader.stops === "leave") {
            await stream.cancel();
            return this.#end(sending, "left");
          }
          // Do not wait for the end, because it may come only after `STALL_MS`.
          void stream.closed.then(whole, () => this.#expectCutOff(sending, ["order_list_stalled"]));
          return;
        }
        if (reader.pauseMs > 0)
          await new Promise((resolve) => void setTimeout(resolve, reader.pauseMs));
        this.#awaitedPieces += 1;
        const { done, value } = await stream.read().finally(() => (this.#awaitedPieces -= 1));
        if (done) break;
        sending.received += new TextDecoder().decode(value);
        this.#expectBounded(isolate);
        await this.#step("a piece arrives");
      }
    } catch (error) {
      return this.#cutOff(sending, (error as Error).cause);
    }
    whole();
  }

  #end(sending: Sending, kind: keyof World["answers"]): void {
    sending.isolate.sending.delete(sending);
    this.answers[kind] += 1;
  }

  /** Expects the logged event to match something that happened since the list began. */
  #cutOff(sending: Sending, error: unknown): void {
    const { begun } = sending;
    const now = this.#now();
    const causes: ListEvent[] = [];
    // In this world, housekeeping deletes former states that are an hour old.
    const isLong = Date.now() - begun.atMs >= HOUR_MS;
    if (now.barriers > begun.barriers || isLong) causes.push("order_list_moved");
    if (now.stalls > begun.stalls) causes.push("order_list_stalled");
    if (now.faulty > begun.faulty || this.#isPaused(error)) causes.push("order_list_broken");
    this.#expectCutOff(sending, causes);
  }

  #expectCutOff(sending: Sending, causes: readonly ListEvent[]): void {
    const { received, events } = sending;
    const [event] = events;
    this.#end(sending, event as keyof World["answers"]);
    if (parses(received)) this.faults.push(`a list that was cut off is valid JSON: ${received}`);
    if (event === undefined || events.length > 1 || !causes.includes(event))
      this.faults.push(`a list was cut off: ${events.join()}; what happened is: ${causes.join()}`);
  }

  /** Expects an isolate's lists to hold only reserved memory, within the limit for reservations. */
  #expectBounded({ sending, underWay }: Isolate): void {
    let bytes = 0;
    for (const { texts, received, events } of sending) {
      if (events.length > 0) continue;
      for (const text of texts.values()) {
        const lastId = /(?:^|i)(-?\d+)[^i]*$/.exec(text)?.[1];
        if (lastId !== undefined && !received.includes(`{"id":${lastId}`)) bytes += text.length;
      }
    }
    if (bytes > underWay.bytes)
      this.faults.push(`lists hold ${bytes} bytes, but only ${underWay.bytes} are reserved`);
    const { underWayBytes } = this.#options;
    if (underWay.bytes > Math.max(underWayBytes, 2 * SLICE_BYTES + QUERY_BYTES[1]))
      this.faults.push(`${underWay.bytes} bytes are reserved, but only ${underWayBytes} allowed`);
  }

  /** Expects a response to be the list as it was at the moment `begun` or a later moment. */
  #expectMoment(begun: number, version: string, text: string | null): void {
    const moments = this.moments.slice(begun);
    const isTrue = moments.some(
      (moment) => moment.version === version && (text === null || moment.list === text),
    );
    if (!isTrue) this.faults.push(`no moment since ${begun} had ${version}: ${text}`);
    if (text === null) return;
    const body = this.#bodies.get(version) ?? text;
    if (body !== text) this.faults.push(`${version} names two bodies: ${body} and ${text}`);
    this.#bodies.set(version, body);
  }

  /** Returns whether a query was not sent because an earlier query had timed out. */
  #isPaused(error: unknown): boolean {
    const isPaused = error instanceof Error && String(error.cause).includes("has just timed out");
    return isPaused && this.#faulty > 0;
  }

  #now(): Now {
    return {
      moment: this.moments.length - 1,
      atMs: Date.now(),
      faulty: this.#faulty,
      stalls: this.#stalls,
      barriers: this.#barriers,
    };
  }

  #remember(): void {
    this.moments.push({
      list: listOf(this.#database),
      version: versionOf(this.#database),
      atMs: Date.now(),
      barriers: this.#barriers,
      contents: this.#isNearest ? contentsOf(this.#database) : null,
    });
    for (const { memory } of this.#isolates ?? []) {
      if (memory.hasRunBack && this.#restored === 0)
        this.faults.push("an isolate's memory has run back");
    }
  }

  get #isNearest(): boolean {
    return this.#options.nearest.length > 0;
  }

  #isolateOf(n: number): Isolate {
    return this.#isolates[n % this.#isolates.length]!;
  }

  /** Simulates the service's steps between a cancellation in the database and the response. */
  async #answerCancellation(key: number, { lists }: Isolate, hasCancelled: boolean): Promise<void> {
    const moment = this.moments.length - 1;
    const { sequence } = prepare(this.#database, "SELECT sequence FROM order_list").get() as {
      sequence: number;
    };
    await this.#step("a cancellation is done");
    lists.saw(String(key), sequence);
    await this.#step("the object learns of a cancellation");
    const before = this.#cancellations.get(key) ?? 0;
    this.#cancellations.set(key, Math.max(before, sequence));
    await this.#step("a cancellation is answered");
    if (hasCancelled) this.#cancelled.set(key, Math.max(moment, this.#cancelled.get(key) ?? 0));
  }

  #receive({ received }: Isolate, key: number, version: string): void {
    const moment = this.moments.findLastIndex((one) => one.version === version);
    received.set(key, Math.max(moment, received.get(key) ?? 0));
  }

  /** Returns the state when a list begins, with the oldest moment that the list may show. */
  #begun({ received }: Isolate, key: number): Now {
    const now = this.#now();
    if (!this.#isNearest) return now;
    const late = this.moments.findLastIndex(({ atMs }) => atMs <= Date.now() - MAX_LAG_MS);
    const seen = [this.#cancelled, received].map((moments) => moments.get(key) ?? 0);
    // After a restore, a list may predate the key's last list, but not a cancellation since then.
    const known = seen.map((moment) => (moment < this.#restored ? 0 : moment));
    const moment = Math.max(0, late, ...(this.#restored > 0 ? known.slice(0, 1) : known));
    return { ...now, moment, barriers: this.moments[moment]!.barriers };
  }

  #step(label: string): Promise<void> {
    return this.#scheduler.schedule(Promise.resolve(), label);
  }

  #isolate(): Isolate {
    const { concurrency, memoryBytes, underWayBytes } = this.#options;
    const underWay = new ObservedUnderWay(underWayBytes, STALL_MS);
    const memory = new ObservedMemory(memoryBytes);
    const lists = new OrderLists(new DatabaseQueries("orders", TIMEOUT_MS), expander, {
      listReads: this.#isNearest ? "nearest" : "primary",
      memory,
      underWay,
      sizes: {
        concurrency,
        missingWithManifest: 2,
        groupSegments: 2,
        groupsAhead: 2,
        sliceBytes: SLICE_BYTES,
        queryBytes: QUERY_BYTES[0],
        stallMs: STALL_MS,
      },
    });
    return { lists, memory, underWay, sending: new Set(), received: new Map() };
  }

  /** Returns a double of D1 for one request, which records the segments that the request reads. */
  #d1(sending: Sending): D1Database {
    const source = (isNearest: boolean) => ({
      prepare: (sql: string) => ({
        bind: (...values: SQLInputValue[]) => ({
          all: async () => {
            const place = isNearest ? this.#nextNearest() : 2;
            this.#pendingQueries += 1;
            try {
              const results = await this.#query(sql, values, sending, isNearest ? place : null);
              return { results, meta: place === 2 ? { served_by_primary: true } : {} };
            } finally {
              this.#pendingQueries -= 1;
            }
          },
        }),
      }),
      withSession: () => source(true),
    });
    return source(false) as unknown as D1Database;
  }

  #nextNearest(): number {
    const { nearest } = this.#options;
    return nearest[this.#nearestReads++ % nearest.length]!;
  }

  #replica(place: number): DatabaseSync {
    const late = this.moments.findLastIndex(({ atMs }) => atMs <= Date.now() - MAX_LAG_MS);
    const last = this.moments.length - 1;
    const followed = Math.min(last, Math.max(late, this.#followed[place]!));
    this.#followed[place] = followed;
    const contents = this.moments[followed]!.contents!;
    if (contents !== replicaContents) fillReplica(replica, contents);
    replicaContents = contents;
    return replica;
  }

  #record(sql: string, rows: readonly Record<string, unknown>[], sending: Sending): void {
    const isSegments = sql.includes("order_changes");
    for (const { version, text } of isSegments ? rows : []) {
      if (sending.texts.has(String(version)) && this.#faulty === 0 && !this.#isNearest)
        this.faults.push("a segment was queried twice for one list");
      if (typeof text === "string") sending.texts.set(String(version), text);
    }
  }

  /** @param nearest the database that serves a `withSession` read; `null` for other reads. */
  async #query(
    sql: string,
    values: SQLInputValue[],
    sending: Sending,
    nearest: number | null,
  ): Promise<unknown[]> {
    const fault = this.#queryFaults.shift() ?? "pass";
    // If a nearest read fails, the primary database answers, so the request must not fail.
    if (fault !== "pass" && nearest === null) this.#faulty += 1;
    await this.#step("a query begins");
    if (fault === "fail") throw new Error("D1_ERROR: Network connection lost.");
    if (fault === "our fault") throw new Error("D1_ERROR: no such column: SQLITE_ERROR");
    if (fault === "hang") return new Promise(() => undefined);
    const isReplica = nearest === 0 || nearest === 1;
    const database = isReplica ? this.#replica(nearest) : this.#database;
    const rows = prepare(database, sql).all(...values);
    const readMs = Date.now();
    if (nearest === null) this.#record(sql, rows, sending);
    await this.#step("a query ends");
    // The service ignores a replica that did not answer in time.
    if (nearest !== null && Date.now() - readMs < TIMEOUT_MS) this.#record(sql, rows, sending);
    if (fault === "lose the answer") throw new Error("D1_ERROR: Network connection lost.");
    return rows;
  }
}

interface Now {
  readonly moment: number;
  readonly atMs: number;
  readonly faulty: number;
  readonly stalls: number;
  readonly barriers: number;
}

function idle(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
