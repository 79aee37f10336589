import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { OrderRecord } from "../../orders/order.ts";

/** In thousands of bytes: what is beyond is on disk. */
const CACHE_KILOBYTES = 32_000;

/**
 * The orders of an import, each id once, the last of duplicates, in ascending id. Kept in a temporary
 * SQLite file, so that any number of them needs little memory, here and where they are placed.
 */
export class SortedOrders {
  readonly #folder = mkdtempSync(join(tmpdir(), "store-orders-import-"));
  readonly #sqlite = new DatabaseSync(join(this.#folder, "orders.sqlite"));
  readonly #put: StatementSync;

  constructor() {
    // Nobody reads the file again if this process dies.
    this.#sqlite.exec(
      `PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -${CACHE_KILOBYTES};
       PRAGMA locking_mode = EXCLUSIVE;
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
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** int64 digit for digit. */
function encode(line: number, order: OrderRecord): string {
  const { id, petId = null, quantity = null, shipDate, complete, status } = order;
  const date = shipDate === undefined ? null : `"${shipDate}"`;
  const flag = complete === undefined ? null : Number(complete);
  return `[${line},${id},${petId},${quantity},${date},${flag},"${status}"]`;
}
