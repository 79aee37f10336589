import { DatabaseSync } from "node:sqlite";
import type { CancelledRecord, OrderRecord } from "../../rules/order.ts";
import { stagedText, valuesOf } from "../../store/orders/placement.ts";
import { startProgress } from "./progress.ts";
import { ElementError, Faults, parseOrder, readElements, type SourceElement } from "./source.ts";

/** The fields of a cancelled order after its position and time, as an import stages them. */
const CANCELLED_FIELDS = [
  "cancelledBy",
  "id",
  "petId",
  "quantity",
  "shipDate",
  "complete",
] as const satisfies readonly (keyof CancelledRecord)[];

/**
 * The orders of an import in a temporary file: sorted by id, the last of each id, and the cancelled
 * ones, sorted by position.
 */
export class SortedOrders {
  /** Whether the numbers of `texts` count lines or array elements. */
  kind: SourceElement["kind"] = "line";
  // SQLite deletes a database without a name when it is closed. Up to 32 MB stay in memory.
  readonly #sqlite = new DatabaseSync("");
  readonly #put;
  readonly #putCancelled;

  constructor() {
    this.#sqlite.exec(
      `PRAGMA journal_mode = OFF; PRAGMA cache_size = -32000; BEGIN;
       CREATE TABLE orders (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
       CREATE TABLE cancelled (
         id INTEGER, at INTEGER, position INTEGER, number INTEGER, text TEXT NOT NULL,
         PRIMARY KEY (id, at, position))`,
    );
    this.#put = this.#sqlite.prepare("INSERT OR REPLACE INTO orders (id, text) VALUES (?, ?)");
    this.#putCancelled = this.#sqlite.prepare(
      "INSERT OR REPLACE INTO cancelled VALUES (?, ?, ?, ?, ?)",
    );
    // Otherwise `run` throws after it has inserted an id above 2^53.
    for (const put of [this.#put, this.#putCancelled]) put.setReadBigInts(true);
  }

  /**
   * Adds the orders of a file.
   *
   * @throws an Error that lists the first lines or array elements that are not valid orders.
   */
  async read(bytes: AsyncIterable<Uint8Array>): Promise<void> {
    using progress = startProgress("Reading");
    const faults = new Faults();
    try {
      for await (const element of readElements(bytes)) {
        this.kind = element.kind;
        this.#add(element, faults);
        progress.advance(1);
      }
      this.#requirePositions();
    } catch (error) {
      faults.add(error);
    }
    faults.throwIfAny();
  }

  #add(element: SourceElement, faults: Faults): void {
    let order: OrderRecord | CancelledRecord;
    try {
      order = parseOrder(element);
    } catch (error) {
      return faults.add(error);
    }
    try {
      if (order.status === "cancelled") this.#addCancelled(element.number, order);
      else this.#put.run(order.id, stagedText(element.number, order));
    } catch (cause) {
      const fault = `the orders could not be sorted in a temporary file (${(cause as Error).message})`;
      const advice = "make room, or set SQLITE_TMPDIR, and run the same command again";
      throw new Error(`${fault}: nothing was sent: ${advice}`, { cause });
    }
  }

  #addCancelled(number: number, order: CancelledRecord): void {
    const { id, cancelledAt, position = 0n } = order;
    const text = valuesOf(order, CANCELLED_FIELDS);
    this.#putCancelled.run(id, Date.parse(cancelledAt), position, number, text);
  }

  /** @throws {ElementError} if cancelled orders share a position, or only some have one. */
  #requirePositions(): void {
    const [first] = this.#sqlite
      .prepare(
        `SELECT max(number) AS number, position FROM cancelled
         GROUP BY position HAVING iif(position = 0,
           EXISTS (SELECT 1 FROM cancelled WHERE position > 0), count(*) > 1)`,
      )
      .all();
    if (first === undefined) return;
    const fault =
      first["position"] === 0
        ? "missing, but other cancelled orders of the file have one"
        : `${String(first["position"])} occurs twice`;
    throw new ElementError(
      { kind: this.kind, number: Number(first["number"]) },
      `position: ${fault}`,
    );
  }

  /**
   * Positions after the present time would be exceeded by those of all later cancellations.
   *
   * @throws {BadOrdersError} if orders were cancelled after `now`, the database's time.
   */
  requirePast(now: Date): void {
    const faults = new Faults();
    const later = this.#sqlite.prepare(
      `SELECT number, iif(at > :now, 'cancelledAt', 'position') AS field FROM cancelled
       WHERE max(at, position / 1000) > :now ORDER BY number`,
    );
    for (const { number, field } of later.iterate({ now: now.getTime() })) {
      const fault = `${String(field)}: later than the database's present time, ${now.toISOString()}`;
      faults.add(new ElementError({ kind: this.kind, number: Number(number) }, fault));
    }
    faults.throwIfAny();
  }

  cancelledCount(): number {
    return Number(this.#sqlite.prepare("SELECT count(*) AS count FROM cancelled").get()?.["count"]);
  }

  /**
   * Yields each cancelled order as `[number, position, time, …]` in JSON. Without positions in the
   * file, the times of the cancellations give them.
   */
  *cancelledTexts(): Generator<string> {
    const rows = this.#sqlite.prepare(
      "SELECT at, position, number, text FROM cancelled ORDER BY position, at, id",
    );
    let last = 0;
    for (const { at, position, number, text } of rows.iterate()) {
      last = Number(position) || Math.max(last + 1, Number(at) * 1_000);
      yield `[${String(number)},${last},${String(at)},${String(text)}]`;
    }
  }

  count(): number {
    return Number(this.#sqlite.prepare("SELECT count(*) AS count FROM orders").get()?.["count"]);
  }

  /** Yields the `stagedText` of each order. */
  *texts(): Generator<string> {
    for (const { text } of this.#sqlite.prepare("SELECT text FROM orders ORDER BY id").iterate()) {
      yield String(text);
    }
  }

  [Symbol.dispose](): void {
    this.#sqlite.close();
  }
}
