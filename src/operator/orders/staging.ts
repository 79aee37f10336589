import { randomUUID } from "node:crypto";
import { eq, lt } from "drizzle-orm";
import { orderImportChunks } from "../../worker/db/orders-schema.ts";
import { type Statement, type StoreDatabase, toStatements } from "../database/database.ts";

/** A statement that is sent as SQL alone has at most 100,000 bytes, with this text in it. */
const CHUNK_CHARACTERS = 65_536;
/** Four megabytes, because a remote transaction takes some seconds, however small it is. */
const CHUNKS_PER_TRANSACTION = 64;
const ABANDONED_AFTER_MS = 24 * 60 * 60 * 1000;

/**
 * Collects the orders of an import in a table of their own, in ascending id. So the import needs
 * little memory and the orders change in one step at the end. Meanwhile the database holds them
 * twice.
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

  /** True when enough chunks wait to make a transaction worth its time. */
  get isFull(): boolean {
    return this.#chunks.length >= CHUNKS_PER_TRANSACTION;
  }

  /** Adds an order as `SortedOrders` writes it. */
  add(text: string): void {
    if (this.#characters + text.length + 2 > CHUNK_CHARACTERS) this.#closeChunk();
    this.#lines.push(text);
    this.#characters += text.length + 1;
  }

  /** Writes the full chunks that are not written yet. */
  async flush(): Promise<void> {
    const chunks = this.#chunks;
    this.#chunks = [];
    await this.#database.transaction(chunks);
  }

  /** Writes everything that is left. */
  async finish(): Promise<void> {
    this.#closeChunk();
    await this.flush();
  }

  /** Deletes what this import wrote. */
  async discard(): Promise<void> {
    const { orm } = this.#database;
    await orm.delete(orderImportChunks).where(eq(orderImportChunks.importId, this.importId));
  }

  /** Deletes chunks older than a day, which imports left behind that ended without `discard`. */
  async discardAbandoned(now: Date): Promise<void> {
    const before = new Date(now.getTime() - ABANDONED_AFTER_MS);
    await this.#database.orm
      .delete(orderImportChunks)
      .where(lt(orderImportChunks.createdAt, before));
  }

  #closeChunk(): void {
    if (this.#lines.length === 0) return;
    const insertion = this.#database.orm.insert(orderImportChunks).values({
      importId: this.importId,
      createdAt: new Date(),
      lines: `[${this.#lines.join()}]`,
    });
    this.#chunks.push(...toStatements([insertion]));
    this.#lines = [];
    this.#characters = 0;
  }
}
