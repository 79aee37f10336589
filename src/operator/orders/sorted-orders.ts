import { DatabaseSync } from "node:sqlite";
import type { OrderRecord } from "../../rules/order.ts";
import { stagedText } from "../../store/orders/placement.ts";
import { startProgress } from "./progress.ts";
import { Faults, parseOrder, readElements, type SourceElement } from "./source.ts";

/** The orders of an import, sorted by id, in a temporary file. Keeps the last order of each id. */
export class SortedOrders {
  /** Whether the numbers of `texts` count lines or array elements. */
  kind: SourceElement["kind"] = "line";
  // SQLite deletes a database without a name when it is closed. Up to 32 MB stay in memory.
  readonly #sqlite = new DatabaseSync("");
  readonly #put;

  constructor() {
    this.#sqlite.exec(
      `PRAGMA journal_mode = OFF; PRAGMA cache_size = -32000; BEGIN;
       CREATE TABLE orders (id INTEGER PRIMARY KEY, text TEXT NOT NULL)`,
    );
    this.#put = this.#sqlite.prepare("INSERT OR REPLACE INTO orders (id, text) VALUES (?, ?)");
    // Otherwise `run` throws after it has inserted an id above 2^53.
    this.#put.setReadBigInts(true);
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
    } catch (error) {
      faults.add(error);
    }
    faults.throwIfAny();
  }

  #add(element: SourceElement, faults: Faults): void {
    let order: OrderRecord;
    try {
      order = parseOrder(element);
    } catch (error) {
      return faults.add(error);
    }
    try {
      this.#put.run(order.id, stagedText(element.number, order));
    } catch (cause) {
      const fault = `the orders could not be sorted in a temporary file (${(cause as Error).message})`;
      const advice = "make room, or set SQLITE_TMPDIR, and run the same command again";
      throw new Error(`${fault}: nothing was sent: ${advice}`, { cause });
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
