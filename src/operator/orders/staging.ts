import { createHash } from "node:crypto";
import { eq } from "drizzle-orm";
import { orderImportParts } from "../../schema/orders.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";

/**
 * The largest length of a part of an import in ASCII characters. A part is one row, which D1 limits
 * to 2 MB.
 */
const PART_CHARACTERS = 1_900_000;

/**
 * Returns the id of an import: a digest of the orders and of the size of parts. So two parts with
 * the same import id and the same number always have the same content.
 */
export function importIdOf(orders: SortedOrders): string {
  const hash = createHash("sha256").update(String(PART_CHARACTERS));
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
 */
export async function storeParts(
  database: StoreDatabase,
  importId: string,
  orders: SortedOrders,
  stored: ReadonlySet<number>,
): Promise<number> {
  using progress = startProgress({ doing: "Sending", unit: "orders", total: orders.count() });
  let part = 0;
  for (const lines of divide(orders.texts())) {
    if (!stored.has(part)) {
      const insertion = database.orm
        .insert(orderImportParts)
        .values({ importId, part, createdAt: new Date(), lines: `[${lines.join()}]` })
        .onConflictDoNothing();
      for (const statement of toStatements([insertion])) await database.storeOnce(statement);
    }
    progress.advance(lines.length);
    part += 1;
  }
  return part;
}

/** Deletes all parts of an import. */
export async function discardParts({ orm }: StoreDatabase, importId: string): Promise<void> {
  await orm.delete(orderImportParts).where(eq(orderImportParts.importId, importId));
}

function* divide(texts: Iterable<string>): Generator<readonly string[]> {
  let lines: string[] = [];
  let characters = 2;
  for (const text of texts) {
    if (characters + text.length > PART_CHARACTERS) {
      yield lines;
      lines = [];
      characters = 2;
    }
    lines.push(text);
    characters += text.length + 1;
  }
  if (lines.length > 0) yield lines;
}
