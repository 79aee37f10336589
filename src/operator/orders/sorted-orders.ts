import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { OrderRecord } from "../../worker/orders/order.ts";

/** What is beyond is on disk. */
const CACHE_KILOBYTES = 32_000;

/**
 * The orders of an import, each id once, the last of duplicates, in ascending id. Kept in a temporary
 * file, which goes with this process, so that any number of them needs little memory, here and where
 * they are placed.
 */
export class SortedOrders {
  /** Without a name SQLite makes it a temporary one. */
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

  /** Takes the order that stands in this line (or array element) of the file. */
  add(line: number, order: OrderRecord): void {
    this.#put.run(order.id, encode(line, order));
  }

  /** How many different orders there are. */
  count(): number {
    return Number(this.#sqlite.prepare("SELECT count(*) AS count FROM orders").get()?.["count"]);
  }

  /** Each order as `[line,id,petId,quantity,shipDate,complete,status]` in JSON. */
  *texts(): Generator<string> {
    for (const { text } of this.#sqlite.prepare("SELECT text FROM orders ORDER BY id").iterate()) {
      yield String(text);
    }
  }

  [Symbol.dispose](): void {
    this.#sqlite.close();
  }
}

/** int64 digit for digit. */
function encode(line: number, order: OrderRecord): string {
  const { id, petId = null, quantity = null, shipDate, complete, status } = order;
  const date = shipDate === undefined ? null : `"${shipDate}"`;
  const flag = complete === undefined ? null : Number(complete);
  return `[${line},${id},${petId},${quantity},${date},${flag},"${status}"]`;
}
