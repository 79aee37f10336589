import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { OrderRecord } from "../../rules/order.ts";
import type { SourceElement } from "./source.ts";

const CACHE_KILOBYTES = 32_000;

/** The orders of an import, sorted by id, in a temporary file. Keeps the last order of each id. */
export class SortedOrders {
  /** Whether the numbers passed to `add` count lines or array elements. */
  kind: SourceElement["kind"] = "line";
  /** A temporary database: SQLite deletes a database without a name when it is closed. */
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

  /**
   * @param line the number of the order's line or array element in the imported file.
   * @throws an Error for the operator if the disk is full.
   */
  add(line: number, order: OrderRecord): void {
    try {
      this.#put.run(order.id, encode(line, order));
    } catch (cause) {
      throw new Error(
        `the orders could not be sorted in a temporary file (${(cause as Error).message}): nothing was sent. ` +
          "Make room, or set SQLITE_TMPDIR to another folder, and run the same command again",
        { cause },
      );
    }
  }

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

/** Writes an order as a JSON array. Does not use `JSON.stringify`, which refuses bigints. */
function encode(line: number, order: OrderRecord): string {
  const { id, petId = null, quantity = null, shipDate, complete, status } = order;
  const date = shipDate === undefined ? null : `"${shipDate}"`;
  const flag = complete === undefined ? null : Number(complete);
  return `[${line},${id},${petId},${quantity},${date},${flag},"${status}"]`;
}
