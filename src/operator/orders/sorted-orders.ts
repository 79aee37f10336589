import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { OrderRecord } from "../../worker/orders/order.ts";

/** Memory for the sorted orders; the rest is on disk. */
const CACHE_KILOBYTES = 32_000;

/**
 * The orders of an import in ascending id, with only the last of duplicates. They are in a
 * temporary file, so that any number of them needs little memory, at the cost of disk space.
 */
export class SortedOrders {
  /** SQLite deletes a database without a name when it is closed. */
  readonly #sqlite = new DatabaseSync("");
  readonly #put: StatementSync;

  constructor() {
    this.#sqlite.exec(
      `PRAGMA journal_mode = OFF; PRAGMA cache_size = -${CACHE_KILOBYTES};
       CREATE TABLE orders (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
       BEGIN`,
    );
    this.#put = this.#sqlite.prepare("INSERT OR REPLACE INTO orders (id, text) VALUES (?, ?)");
  }

  /** Adds the order of this line (or array element) of the file. */
  add(line: number, order: OrderRecord): void {
    this.#put.run(order.id, encode(line, order));
  }

  /** Counts the different orders. */
  count(): number {
    return Number(this.#sqlite.prepare("SELECT count(*) AS count FROM orders").get()?.["count"]);
  }

  /** Yields each order as `[line,id,petId,quantity,shipDate,complete,status]` in JSON. */
  *texts(): Generator<string> {
    for (const { text } of this.#sqlite.prepare("SELECT text FROM orders ORDER BY id").iterate()) {
      yield String(text);
    }
  }

  [Symbol.dispose](): void {
    this.#sqlite.close();
  }
}

/** Writes the JSON by hand, because `JSON.stringify` refuses bigints. */
function encode(line: number, order: OrderRecord): string {
  const { id, petId = null, quantity = null, shipDate, complete, status } = order;
  const date = shipDate === undefined ? null : `"${shipDate}"`;
  const flag = complete === undefined ? null : Number(complete);
  return `[${line},${id},${petId},${quantity},${date},${flag},"${status}"]`;
}
