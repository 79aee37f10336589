import { createHash } from "node:crypto";
import { eq } from "drizzle-orm";
import { orderImportParts } from "../../schema/orders.ts";
import { DATABASE_TIME, type StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import type { SourceElement } from "./source.ts";

/** How an import divides its orders. Tests set smaller sizes. */
export const IMPORT_SIZES = {
  /** The size limit of a part in ASCII characters. A part is one row; D1 limits a row to 2 MB. */
  partCharacters: 1_900_000,
  /** The number of parts per statement: about 40,000 orders. D1 allows a statement 30 seconds. */
  partsPerStatement: 2,
  /** The most parts that one batch places: about 80,000 orders. D1 allows a batch 30 seconds. */
  partsPerBatch: 4,
  /** The orders per rebuilt segment. A trigger splits a segment above 1.5 times this number. */
  segmentOrders: 8_192,
};

/** An import whose parts are all in the store, but whose orders are not written to `orders` yet. */
export interface StagedImport {
  readonly importId: string;
  readonly partCount: number;
  readonly kind: SourceElement["kind"];
}

/** Returns a digest of orders and part size, so that imports with equal ids have equal parts. */
export function importIdOf(orders: SortedOrders): string {
  const hash = createHash("sha256").update(String(IMPORT_SIZES.partCharacters));
  for (const text of orders.texts()) hash.update(text);
  return hash.digest("hex");
}

export async function readStoredParts(
  database: StoreDatabase,
  importId: string,
): Promise<ReadonlySet<number>> {
  const parts = await database.orm
    .select({ part: orderImportParts.part })
    .from(orderImportParts)
    .where(eq(orderImportParts.importId, importId));
  return new Set(parts.map(({ part }) => part));
}

/**
 * Stores those parts of an import that are not in `stored`, each with its own call. So the import
 * needs little memory, and the service can use the database between the calls.
 *
 * @throws the reason of `signal` if `signal` is aborted, after storing the current part.
 */
export async function storeParts(
  database: StoreDatabase,
  importId: string,
  orders: SortedOrders,
  stored: ReadonlySet<number>,
  signal: AbortSignal | undefined,
): Promise<StagedImport> {
  using progress = startProgress({ doing: "Sending", unit: "orders", total: orders.count() });
  let partCount = 0;
  for (const { count, lines } of divide(orders)) {
    if (!stored.has(partCount)) {
      const row = { importId, part: partCount, createdAt: DATABASE_TIME, lines };
      await database.repeatable.insert(orderImportParts).values(row).onConflictDoNothing();
    }
    progress.advance(count);
    partCount += 1;
    signal?.throwIfAborted();
  }
  return { importId, partCount, kind: orders.kind };
}

export async function discardParts(database: StoreDatabase, importId: string): Promise<void> {
  await database.orm.delete(orderImportParts).where(eq(orderImportParts.importId, importId));
}

/** Divides the orders of an import into parts. `lines` is a JSON array of `count` orders. */
export function* divide(
  orders: SortedOrders,
): Generator<{ readonly count: number; readonly lines: string }> {
  let lines: string[] = [];
  let characters = 2;
  for (const text of orders.texts()) {
    if (characters + text.length > IMPORT_SIZES.partCharacters) {
      yield { count: lines.length, lines: `[${lines.join()}]` };
      lines = [];
      characters = 2;
    }
    lines.push(text);
    characters += text.length + 1;
  }
  if (lines.length > 0) yield { count: lines.length, lines: `[${lines.join()}]` };
}
