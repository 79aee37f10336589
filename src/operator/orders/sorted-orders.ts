import { DatabaseSync } from "node:sqlite";
import { getTableColumns } from "drizzle-orm";
import type { OrderRecord } from "../../rules/order.ts";
import { orders } from "../../schema/orders.ts";
import type { SourceElement } from "./source.ts";

const FIELDS = Object.keys(getTableColumns(orders)) as (keyof typeof orders.$inferSelect)[];

/** Returns JSON as SQLite stores the value. `JSON.stringify` would refuse bigints. */
function jsonOf(value: OrderRecord[keyof OrderRecord]): string {
  if (typeof value === "string") return JSON.stringify(value);
  return String(typeof value === "boolean" ? Number(value) : (value ?? null));
}

/** The orders of an import, sorted by id, in a temporary file. Keeps the last order of each id. */
export class SortedOrders {
  /** Whether the numbers passed to `add` count lines or array elements. */
  kind: SourceElement["kind"] = "line";
  readonly #sqlite: DatabaseSync;
  readonly #put;

  constructor() {
    // SQLite deletes a database without a name when it is closed. Up to 32 MB stay in memory.
    this.#sqlite = new DatabaseSync("");
    this.#sqlite.exec(
      `PRAGMA journal_mode = OFF; PRAGMA cache_size = -32000;
       CREATE TABLE orders (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
       BEGIN`,
    );
    this.#put = this.#sqlite.prepare("INSERT OR REPLACE INTO orders (id, text) VALUES (?, ?)");
  }

  /**
   * @param number the number of the order's line or array element in the imported file.
   * @throws an Error for the operator if the disk is full.
   */
  add(number: number, order: OrderRecord): void {
    const values = FIELDS.map((field) => jsonOf(order[field]));
    try {
      this.#put.run(order.id, `[${number},${values.join()}]`);
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

  /** Yields each order as `[number, …]` in JSON, with the columns of the table `orders`. */
  *texts(): Generator<string> {
    for (const { text } of this.#sqlite.prepare("SELECT text FROM orders ORDER BY id").iterate()) {
      yield String(text);
    }
  }

  [Symbol.dispose](): void {
    this.#sqlite.close();
  }
}
