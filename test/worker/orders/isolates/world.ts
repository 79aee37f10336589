import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { Scheduler } from "fast-check";
import { vi } from "vitest";
import { assembleExpansion } from "../../../../src/operator/build/expansion.ts";
import {
  DatabaseQueries,
  DatabaseUnavailableError,
} from "../../../../src/worker/db/availability.ts";
import { ApiError } from "../../../../src/worker/errors.ts";
import { type Expansion, OrderExpander } from "../../../../src/worker/orders/order-expander.ts";
import { type ListEvent, OrderLists } from "../../../../src/worker/orders/order-lists.ts";
import type { CacheStore } from "../../../../src/worker/orders/segment-cache.ts";
import { SegmentMemory } from "../../../../src/worker/orders/segment-memory.ts";
import { bulkChange, listOf, prepare, versionOf } from "./order-database.ts";

export type QueryFault = "pass" | "fail" | "lose the answer" | "hang" | "our fault";
export type CacheFault = "pass" | "fail" | "lose" | "cut off" | "hang";

const TIMEOUT_MS = 1_000;
/** A test fails if a simulated request takes longer than this. */
const PATIENCE_MS = 200_000;

/** The global `WebAssembly`, with a type of its own, because the types of Node lack it. */
const { WebAssembly } = globalThis as unknown as {
  WebAssembly: {
    instantiate(bytes: Uint8Array): Promise<{ instance: { exports: Expansion } }>;
  };
};
const { instance } = await WebAssembly.instantiate(await assembleExpansion());
export const expander = new OrderExpander(instance.exports);

/** Places an order, unless there is already an order with its id. */
const PLACE = "INSERT INTO orders (id) SELECT ?1 WHERE ?1 NOT IN (SELECT id FROM orders)";

/** One request for the list, and how its client behaves. */
export interface Reader {
  readonly isolate: number;
  readonly isHead: boolean;
  /**
   * The index of the entity tag in `If-None-Match`, among the tags seen so far; `null` for no
   * header.
   */
  readonly tag: number | null;
  /**
   * The number of pieces of the list after which the client disconnects; `null` if it reads the
   * whole list.
   */
  readonly leavesAfter: number | null;
}

/** One event in the simulation other than a request. */
export type Change =
  | { readonly do: "place" | "cancel" | "ship" | "touch" | "remove"; readonly id: number }
  | { readonly do: "import"; readonly ids: readonly number[] }
  | { readonly do: "bulk"; readonly ids: readonly number[] }
  | { readonly do: "lose the cache" }
  | { readonly do: "wait"; readonly ms: number };

/** The list and its version after one change of the database. */
interface Moment {
  readonly list: string;
  readonly version: string;
}

interface WorldOptions {
  readonly scheduler: Scheduler;
  readonly database: DatabaseSync;
  readonly isolates: number;
  /** The number of snapshot queries that an isolate runs at the same time. */
  readonly concurrency: number;
  readonly queryFaults: readonly QueryFault[];
  readonly cacheFaults: readonly CacheFault[];
  /** False if the platform has no cache. */
  readonly hasCache: boolean;
  readonly memoryBytes: number;
}

/**
 * A simulation of isolates, their clients, a cache and a real SQLite database. The scheduler
 * determines the order of all steps.
 */
export class World {
  /** The list after each change so far. */
  readonly moments: Moment[] = [];
  /** Descriptions of wrong behaviour, which fail the test. */
  readonly faults: string[] = [];
  readonly answers = { whole: 0, known: 0, broken: 0, failed: 0, left: 0 };
  readonly #options: WorldOptions;
  readonly #lists: OrderLists[];
  readonly #cache = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly #queryFaults: QueryFault[];
  readonly #cacheFaults: CacheFault[];
  readonly #bodies = new Map<string, string>();
  readonly #tags: string[] = [];
  #faulty = 0;
  #waited = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#queryFaults = [...options.queryFaults];
    this.#cacheFaults = [...options.cacheFaults];
    this.#lists = Array.from(
      { length: options.isolates },
      () =>
        new OrderLists(new DatabaseQueries("orders", TIMEOUT_MS), expander, {
          openCache: () => this.#openCache(),
          memory: new SegmentMemory(options.memoryBytes, options.memoryBytes / 4),
          sizes: {
            concurrency: options.concurrency,
            missingWithManifest: 2,
            groupSegments: 2,
            sliceBytes: 20,
            stallMs: 60_000,
            cacheCalls: 20,
          },
        }),
    );
    this.#remember();
  }

  /** Runs scheduled steps until `work` is done. Advances the clock only when no step is left. */
  async run(work: readonly Promise<void>[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).then(() => (isDone = true));
    let waitedMs = 0;
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (isDone) break;
      if (this.#options.scheduler.count() > 0) {
        await this.#options.scheduler.waitNext(1);
      } else if (waitedMs > PATIENCE_MS) {
        this.faults.push("a request waits forever");
        return;
      } else {
        waitedMs += 250;
        vi.advanceTimersByTime(250);
      }
    }
    await all;
  }

  async change(change: Change): Promise<void> {
    await this.#step(`change: ${JSON.stringify(change)}`);
    const run = (sql: string, ...values: SQLInputValue[]) =>
      prepare(this.#options.database, sql).run(...values);
    switch (change.do) {
      case "place":
        run(PLACE, change.id);
        break;
      case "cancel":
        run(
          "UPDATE orders SET status = 'cancelled', cancelled_at = 1 WHERE id = ? AND status = 'pending'",
          change.id,
        );
        break;
      case "ship":
        run("UPDATE orders SET status = 'shipped' WHERE id = ?", change.id);
        break;
      case "touch":
        run("UPDATE orders SET quantity = ifnull(quantity, 0) + 1 WHERE id = ?", change.id);
        break;
      case "remove":
        run("DELETE FROM orders WHERE id = ? AND status = 'pending'", change.id);
        break;
      case "import":
        // A single INSERT statement for all orders. Its triggers run once for each order.
        run(
          "INSERT INTO orders (id) SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM orders) GROUP BY value",
          JSON.stringify(change.ids),
        );
        break;
      case "bulk":
        bulkChange(this.#options.database, () => {
          const ids = JSON.stringify(change.ids);
          run("UPDATE orders SET quantity = 7 WHERE id IN (SELECT value FROM json_each(?))", ids);
          for (const id of change.ids) run(PLACE, id);
        });
        break;
      case "lose the cache":
        this.#cache.clear();
        break;
      case "wait":
        this.#waited += 1;
        vi.advanceTimersByTime(change.ms);
        break;
    }
    this.#remember();
  }

  async read(reader: Reader): Promise<void> {
    await this.#step("a request arrives");
    const lists = this.#lists[reader.isolate % this.#lists.length]!;
    const tag =
      reader.tag === null ? null : this.#tags[reader.tag % Math.max(1, this.#tags.length)];
    const events: ListEvent[] = [];
    const errors: unknown[] = [];
    const begun = this.moments.length - 1;
    const faultsBefore = this.#faulty + this.#waited;
    const request = {
      database: this.#database(),
      knownVersions: tag == null ? [] : [tag],
      isHead: reader.isHead,
      log: (event: ListEvent, error?: unknown) => {
        events.push(event);
        errors.push(error);
      },
      waitUntil: (promise: Promise<unknown>) => void promise.catch(() => undefined),
    };
    try {
      const snapshot = await lists.read(request);
      await this.#step("the limiter admits");
      const { version, isKnown, body } = lists.answer(snapshot, request);
      if (isKnown !== (version === tag)) this.faults.push("a 304 to a request without the version");
      if (isKnown || reader.isHead) {
        this.answers.known += 1;
        return this.#expectMoment(begun, version, null);
      }
      await this.#readBody(reader, { version, body, begun, events, errors, faultsBefore });
    } catch (error) {
      this.answers.failed += 1;
      const isHonest = error instanceof DatabaseUnavailableError || error instanceof ApiError;
      if (!isHonest && !String(error).includes("SQLITE_ERROR"))
        this.faults.push(`threw ${String(error)}`);
      if (this.#faulty + this.#waited === faultsBefore && !this.#isPaused(error))
        this.faults.push(`failed without a fault: ${String(error)}`);
    }
  }

  async #readBody(
    reader: Reader,
    answer: {
      version: string;
      body: unknown;
      begun: number;
      events: ListEvent[];
      errors: unknown[];
      faultsBefore: number;
    },
  ): Promise<void> {
    const { version, body, begun, events, errors, faultsBefore } = answer;
    let text = "";
    let isWhole = true;
    if (body instanceof ReadableStream) {
      const stream = body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
      try {
        for (let pieces = 0; ; pieces += 1) {
          if (pieces === reader.leavesAfter) {
            this.answers.left += 1;
            return void stream.cancel();
          }
          const { done, value } = await stream.read();
          if (done) break;
          text += new TextDecoder().decode(value);
          await this.#step("a piece arrives");
        }
      } catch {
        isWhole = false;
      }
    } else {
      text = typeof body === "string" ? body : new TextDecoder().decode(body as Uint8Array);
    }
    if (isWhole) {
      this.answers.whole += 1;
      this.#expectMoment(begun, version, text);
      this.#tags.push(version);
      return;
    }
    this.answers.broken += 1;
    if (parses(text)) this.faults.push(`a list that was cut off is valid JSON: ${text}`);
    if (events.length !== 1)
      this.faults.push(`a list that was cut off was logged ${events.length} times`);
    const isDisturbed =
      this.#faulty + this.#waited > faultsBefore ||
      this.moments.length - 1 > begun ||
      this.#isPaused(errors[0]);
    if (!isDisturbed) this.faults.push(`a list was cut off without a fault: ${events.join()}`);
  }

  /** Expects a response to be the list as it was at some moment since the request arrived. */
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

  /**
   * Returns whether an error means that a query was not sent because an earlier query had timed
   * out.
   */
  #isPaused(error: unknown): boolean {
    const isPaused = error instanceof Error && String(error.cause).includes("has just timed out");
    return isPaused && this.#faulty + this.#waited > 0;
  }

  #remember(): void {
    const { database } = this.#options;
    this.moments.push({ list: listOf(database), version: versionOf(database) });
  }

  #step(label: string): Promise<void> {
    return this.#options.scheduler.schedule(Promise.resolve(), label);
  }

  #database(): D1Database {
    const source = {
      prepare: (sql: string) => ({
        bind: (...values: SQLInputValue[]) => ({ all: () => this.#query(sql, values) }),
      }),
      withSession: () => source,
    };
    return source as unknown as D1Database;
  }

  async #query(sql: string, values: SQLInputValue[]): Promise<{ results: unknown[] }> {
    const fault = this.#queryFaults.shift() ?? "pass";
    if (fault !== "pass") this.#faulty += 1;
    await this.#step("a query begins");
    if (fault === "fail") throw new Error("D1_ERROR: Network connection lost.");
    if (fault === "our fault") throw new Error("D1_ERROR: no such column: SQLITE_ERROR");
    if (fault === "hang") return new Promise(() => undefined);
    const results = prepare(this.#options.database, sql).all(...values);
    await this.#step("a query ends");
    if (fault === "lose the answer") throw new Error("D1_ERROR: Network connection lost.");
    return { results };
  }

  async #openCache(): Promise<CacheStore> {
    if (!this.#options.hasCache) throw new TypeError("Cache API is not available.");
    await this.#step("the cache is opened");
    if (this.#cacheFaults[0] === "hang") return new Promise(() => undefined);
    return {
      has: async (name) => {
        await this.#step("the cache looks for an entry");
        const fault = this.#cacheFaults.shift() ?? "pass";
        if (fault === "hang") return new Promise(() => undefined);
        if (fault === "fail") throw new Error("Internal error");
        return fault !== "lose" && this.#cache.has(name);
      },
      match: async (name) => {
        await this.#step("the cache returns an entry");
        const found = this.#cache.get(name);
        const fault = this.#cacheFaults.shift() ?? "pass";
        if (fault === "hang") return new Promise(() => undefined);
        if (fault === "fail") throw new Error("Internal error");
        if (fault === "lose") return undefined;
        return fault === "cut off" ? found?.slice(0, -1) : found?.slice();
      },
      put: async (name, text) => {
        await this.#step("the cache receives an entry");
        const fault = this.#cacheFaults.shift() ?? "pass";
        if (fault === "hang") return new Promise(() => undefined);
        if (fault === "fail") throw new Error("Internal error");
        if (fault === "pass")
          this.#cache.set(name, Uint8Array.from(new TextEncoder().encode(text)));
      },
    };
  }
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
