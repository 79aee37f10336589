import { createHash } from "node:crypto";
import { eq } from "drizzle-orm";
import { orderImportParts } from "../../schema/orders.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import type { SourceElement } from "./source.ts";

/** How an import divides its orders. Tests use smaller sizes. */
export const IMPORT_SIZES = {
  /**
   * The largest length of a part of an import in ASCII characters. A part is one row, which D1
   * limits to 2 MB.
   */
  partCharacters: 1_900_000,
  /**
   * The number of parts that one statement compares with the stored orders, or writes to the table
   * `orders`. These parts have about 40,000 orders. D1 limits a statement to 30 seconds, and
   * requests to the service wait for it.
   */
  partsPerStatement: 2,
  /**
   * The number of orders in a segment that a bulk change makes. A trigger splits a segment that has
   * grown to one and a half times this number.
   */
  segmentOrders: 8_192,
};

export type ImportSizes = Readonly<typeof IMPORT_SIZES>;

/** An import whose parts are all in the store, but whose orders are not written to `orders` yet. */
export interface StagedImport {
  readonly importId: string;
  readonly partCount: number;
  readonly kind: SourceElement["kind"];
  readonly sizes: ImportSizes;
}

/**
 * Returns the id of an import: a digest of the orders and of the size of parts. So two parts with
 * the same import id and the same number always have the same content.
 */
export function importIdOf(
  orders: SortedOrders,
  { partCharacters }: ImportSizes = IMPORT_SIZES,
): string {
  const hash = createHash("sha256").update(String(partCharacters));
  for (const text of orders.texts()) hash.update(text);
  return hash.digest("hex");
}

/** Reads which parts of an import are in the store, and returns their numbers. */
export async function readStoredParts(
  { orm }: StoreDatabase,
  importId: string,
): Promise<ReadonlySet<number>> {
  const parts = await orm
    .select({ part: orderImportParts.part })
    .from(orderImportParts)
    .where(eq(orderImportParts.importId, importId));
  return new Set(parts.map(({ part }) => part));
}

/**
 * Stores those parts of an import that are not in `stored`. Stores each part with a separate call,
 * so the import needs little memory and the service can use the database between the calls. The
 * parts need additional space in the database until the orders are written to `orders`.
 *
 * @throws the reason of `signal` after the part during which it is aborted.
 */
export async function storeParts(
  database: StoreDatabase,
  importId: string,
  orders: SortedOrders,
  stored: ReadonlySet<number>,
  sizes: ImportSizes,
  signal: AbortSignal | undefined,
): Promise<StagedImport> {
  using progress = startProgress({ doing: "Sending", unit: "orders", total: orders.count() });
  let partCount = 0;
  for (const { count, lines } of divide(orders, sizes)) {
    if (!stored.has(partCount)) {
      const insertion = database.orm
        .insert(orderImportParts)
        .values({ importId, part: partCount, createdAt: new Date(), lines })
        .onConflictDoNothing();
      for (const statement of toStatements([insertion])) await database.runIdempotent(statement);
    }
    progress.advance(count);
    partCount += 1;
    signal?.throwIfAborted();
  }
  return { importId, partCount, kind: orders.kind, sizes };
}

/** Deletes all parts of an import. */
export async function discardParts({ orm }: StoreDatabase, importId: string): Promise<void> {
  await orm.delete(orderImportParts).where(eq(orderImportParts.importId, importId));
}

/** Divides the orders of an import into parts: JSON arrays, with the numbers of their orders. */
export function* divide(
  orders: SortedOrders,
  { partCharacters }: ImportSizes,
): Generator<{ readonly count: number; readonly lines: string }> {
  let lines: string[] = [];
  let characters = 2;
  for (const text of orders.texts()) {
    if (characters + text.length > partCharacters) {
      yield { count: lines.length, lines: `[${lines.join()}]` };
      lines = [];
      characters = 2;
    }
    lines.push(text);
    characters += text.length + 1;
  }
  if (lines.length > 0) yield { count: lines.length, lines: `[${lines.join()}]` };
}
