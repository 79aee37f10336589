import { randomUUID } from "node:crypto";
import { eq, lt } from "drizzle-orm";
import { orderImportChunks } from "../../worker/db/orders-schema.ts";
import type { Statement, StoreDatabase } from "../database/database.ts";

/** A statement with its text is at most 100,000 bytes where it travels as SQL alone. */
const CHUNK_CHARACTERS = 65_536;
/** Four megabytes: a remote database takes some seconds for each transaction, however small. */
const CHUNKS_PER_TRANSACTION = 64;
const ABANDONED_AFTER_MS = 24 * 60 * 60 * 1000;

/**
 * Collects the orders of an import, in ascending id, in a table of its own, so that the import needs
 * little memory and the orders themselves change in one step at the end.
 */
export class Staging {
  readonly importId: string = randomUUID();
  readonly #database: StoreDatabase;
  #lines: string[] = [];
  #characters = 0;
  #chunks: Statement[] = [];

  constructor(database: StoreDatabase) {
    this.#database = database;
  }

  /** Whether there is enough for `flush` to be worth its while. */
  get isFull(): boolean {
    return this.#chunks.length >= CHUNKS_PER_TRANSACTION;
  }

  /** Takes an order as `SortedOrders` writes it. */
  add(text: string): void {
    if (this.#characters + text.length + 2 > CHUNK_CHARACTERS) this.#closeChunk();
    this.#lines.push(text);
    this.#characters += text.length + 1;
  }

  /** Writes what was added and is not written yet, up to the last full chunk. */
  async flush(): Promise<void> {
    const chunks = this.#chunks;
    this.#chunks = [];
    await this.#database.transaction(chunks);
  }

  /** Writes all that is left. */
  async finish(): Promise<void> {
    this.#closeChunk();
    await this.flush();
  }

  /** Deletes what this import wrote. */
  async discard(): Promise<void> {
    const { orm } = this.#database;
    await orm.delete(orderImportChunks).where(eq(orderImportChunks.importId, this.importId));
  }

  /** Deletes what imports left behind that ended a day ago or earlier without their own `discard`. */
  async discardAbandoned(now: Date): Promise<void> {
    const before = new Date(now.getTime() - ABANDONED_AFTER_MS);
    await this.#database.orm
      .delete(orderImportChunks)
      .where(lt(orderImportChunks.createdAt, before));
  }

  #closeChunk(): void {
    if (this.#lines.length === 0) return;
    const { sql, params } = this.#database.orm
      .insert(orderImportChunks)
      .values({
        importId: this.importId,
        createdAt: new Date(),
        lines: `[${this.#lines.join()}]`,
      })
      .toSQL();
    this.#chunks.push({ sql, params: params as Statement["params"] });
    this.#lines = [];
    this.#characters = 0;
  }
}
