import { createHash } from "node:crypto";
import { eq } from "drizzle-orm";
import { orderImportParts } from "../../schema/orders.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";

/** How an import divides its orders. Tests use smaller sizes. */
export interface ImportSizes {
  /**
   * The largest length of a part of an import in ASCII characters. A part is one row, which D1
   * limits to 2 MB.
   */
  readonly partCharacters: number;
  /**
   * The number of parts that one statement writes to the table `orders`. These parts have about
   * 40,000 orders, few enough for D1's limit of 30 seconds for each statement.
   */
  readonly partsPerStatement: number;
  /**
   * The number of parts that one query compares with the stored orders. Requests to the service
   * wait 0.1 s for this query.
   */
  readonly partsPerCheck: number;
  /**
   * The number of orders in a segment that a bulk change makes. A trigger splits a segment that has
   * grown to one and a half times the default.
   */
  readonly segmentOrders: number;
}

export const IMPORT_SIZES: ImportSizes = {
  partCharacters: 1_900_000,
  partsPerStatement: 2,
  partsPerCheck: 4,
  segmentOrders: 8_192,
};

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
 * @returns the number of all parts of the import.
 * @throws the reason of `signal` after the part during which it is aborted.
 */
export async function storeParts(
  database: StoreDatabase,
  importId: string,
  orders: SortedOrders,
  stored: ReadonlySet<number>,
  sizes: ImportSizes,
  signal: AbortSignal | undefined,
): Promise<number> {
  using progress = startProgress({ doing: "Sending", unit: "orders", total: orders.count() });
  let part = 0;
  for (const { count, lines } of divide(orders, sizes)) {
    if (!stored.has(part)) {
      const insertion = database.orm
        .insert(orderImportParts)
        .values({ importId, part, createdAt: new Date(), lines })
        .onConflictDoNothing();
      for (const statement of toStatements([insertion])) await database.runIdempotent(statement);
    }
    progress.advance(count);
    part += 1;
    signal?.throwIfAborted();
  }
  return part;
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
