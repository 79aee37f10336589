import { DatabaseSync } from "node:sqlite";
import { LISTED_FIELDS } from "../../schema/orders.ts";
import { stagedText, valuesOf } from "../../store/orders/placement.ts";
import { startProgress } from "./progress.ts";
import { BadOrdersError, type ImportedOrder, LISTED, parseOrder, readElements } from "./source.ts";

/**
 * The orders of an import in a temporary file: sorted by id, the last of each id, and the cancelled
 * ones, sorted by position.
 */
export class SortedOrders {
  /** Whether the numbers of orders count lines or array elements. */
  #kind = "line";
  // SQLite deletes a database without a name when it is closed. Up to 32 MB stay in memory.
  readonly #sqlite = new DatabaseSync("");
  readonly #put;

  constructor() {
    // `at`: when the order was cancelled; -1 if it is not.
    this.#sqlite.exec(
      `PRAGMA journal_mode = OFF; PRAGMA cache_size = -32000; BEGIN;
       CREATE TABLE orders (
         id INTEGER, at INTEGER, position INTEGER, number INTEGER, text TEXT NOT NULL,
         PRIMARY KEY (id, at, position)) WITHOUT ROWID`,
    );
    this.#put = this.#sqlite.prepare("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?)");
  }

  /**
   * Adds the orders of a file.
   *
   * @throws {BadOrdersError} that lists the first lines or array elements that are not valid orders.
   */
  async read(bytes: AsyncIterable<Uint8Array>): Promise<void> {
    using progress = startProgress("Reading");
    const faults: string[] = [];
    let count = 0;
    for await (const element of readElements(bytes)) {
      this.#kind = element.kind;
      const order = parseOrder(element);
      if (typeof order !== "string") this.#add(element.number, order);
      else if (count++ < LISTED) faults.push(this.locate(element.number, order));
      progress.advance(1);
    }
    if (count > 0) throw new BadOrdersError(faults, count);
  }

  #add(number: number, order: ImportedOrder): void {
    try {
      if (order.status === "cancelled") {
        const { id, cancelledAt, position = 0n } = order;
        const text = valuesOf(order, ["cancelledBy", ...LISTED_FIELDS]);
        this.#put.run(id, Date.parse(cancelledAt), position, number, text);
      } else this.#put.run(order.id, -1, 0, number, stagedText(number, order));
    } catch (cause) {
      const fault = `the orders could not be sorted in a temporary file (${(cause as Error).message})`;
      const advice = "make room, or set SQLITE_TMPDIR, and run the same command again";
      throw new Error(`${fault}: nothing was sent: ${advice}`, { cause });
    }
  }

  /**
   * Positions after the present time would be exceeded by those of all later cancellations.
   *
   * @param now the database's time.
   * @throws {BadOrdersError} if orders were cancelled after `now`, or do not all have a position of
   *   their own, or none.
   */
  requireValidCancellations(now: Date): void {
    const bad = this.#sqlite.prepare(
      `SELECT number, fault, count(*) OVER () AS found FROM (
         SELECT number, CASE
           WHEN at > :now THEN 'cancelledAt: ' || :later
           WHEN position / 1000 > :now THEN 'position: ' || :later
           WHEN position = 0 AND max(position) OVER () > 0
             THEN 'position: missing, but other cancelled orders of the file have one'
           WHEN position > 0 AND position = lag(position) OVER (ORDER BY position, number)
             THEN 'position: ' || position || ' occurs twice'
         END AS fault FROM orders WHERE at >= 0
       ) WHERE fault IS NOT NULL ORDER BY number LIMIT ${LISTED}`,
    );
    const later = `later than the database's present time, ${now.toISOString()}`;
    const rows = bad.all({ now: now.getTime(), later });
    const faults = rows.map(({ number, fault }) => this.locate(number, fault));
    if (faults.length > 0) throw new BadOrdersError(faults, Number(rows[0]?.["found"]));
  }

  /** Returns a fault of an order with the line or array element that has it. */
  locate(number: unknown, fault: unknown): string {
    return [this.#kind, " ", number, ": ", fault].join("");
  }

  /** Returns the number of the orders to be listed, and of the cancelled ones. */
  counts(): { readonly listed: number; readonly cancelled: number } {
    const count = "SELECT count(*) FILTER (WHERE at < 0) AS listed, count(*) AS found FROM orders";
    const { listed, found } = this.#sqlite.prepare(count).get() ?? {};
    return { listed: Number(listed), cancelled: Number(found) - Number(listed) };
  }

  /**
   * Divides the orders into parts of one kind, the cancelled ones first. `json` is an array of `count`
   * orders: a `stagedText`, or `[number, position, time, …]` of a cancelled one. Without positions in
   * the file, the times of the cancellations give them.
   */
  *parts(maxBytes: number) {
    for (const isCancelled of [true, false]) {
      const rows = this.#sqlite.prepare(
        isCancelled
          ? "SELECT at, position, number, text FROM orders WHERE at >= 0 ORDER BY position, at, id"
          : "SELECT text FROM orders WHERE at < 0 ORDER BY id",
      );
      let [last, count, bytes, json] = [0, 0, 2, ""];
      const part = () => ({ isCancelled, count, json: `[${json}]` });
      for (const { at, position, number, text } of rows.iterate()) {
        last = Number(position) || Math.max(last + 1, Number(at) * 1_000);
        const order = isCancelled ? `[${[number, last, at, text].join()}]` : String(text);
        const orderBytes = Buffer.byteLength(order) + 1;
        if (bytes + orderBytes > maxBytes && count > 0) {
          yield part();
          [count, bytes, json] = [0, 2, ""];
        }
        json += count === 0 ? order : `,${order}`;
        bytes += orderBytes;
        count += 1;
      }
      if (count > 0) yield part();
    }
  }

  [Symbol.dispose](): void {
    this.#sqlite.close();
  }
}
