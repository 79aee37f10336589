import { createHash } from "node:crypto";
import { eq } from "drizzle-orm";
import { orderImportParts } from "../../worker/db/orders-schema.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";

/** A part is one row, which D1 limits to 2 MB. All characters are ASCII. */
const PART_CHARACTERS = 1_900_000;

/**
 * Returns the id of an import. It is a digest of the orders and of how they are divided into parts,
 * so a part of that id and number is always the same.
 */
export function importIdOf(orders: SortedOrders): string {
  const hash = createHash("sha256").update(String(PART_CHARACTERS));
  for (const text of orders.texts()) hash.update(text);
  return hash.digest("hex");
}

/** Reads the numbers of the parts of an import that are in the store. */
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
 * Stores the parts of an import that are not `stored` yet, each in a call of its own. So the import
 * needs little memory, and the service works between the calls. The database holds the orders twice
 * until they are placed.
 *
 * @returns the number of parts.
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

/** Deletes the parts of an import. */
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
