import type { StoreDatabase } from "../database/database.ts";
import { isBulkChange } from "./bulk-change.ts";
import { parseOrder } from "./parse-order.ts";
import { findRefusedLine, placeStatements, readChunkIds } from "./placement.ts";
import { startProgress } from "./progress.ts";
import { SortedOrders } from "./sorted-orders.ts";
import { ElementError, type SourceElement } from "./splitter.ts";
import { readElements } from "./source-elements.ts";
import { Staging } from "./staging.ts";

/**
 * Imports the orders of a file, all or none. Reads and checks the whole file before it writes
 * anything, at the cost of a temporary file of the same size.
 *
 * @returns the number of orders placed; duplicates in the file count once.
 * @throws {ElementError} that names the first bad line; other Errors for the operator.
 */
export async function importOrders(
  database: StoreDatabase,
  bytes: AsyncIterable<Uint8Array>,
): Promise<number> {
  using orders = new SortedOrders();
  const kind = await read(bytes, orders);
  const staging = new Staging(database);
  await staging.discardAbandoned(new Date());
  try {
    await stage(staging, orders);
    await place(database, staging.importId, kind, orders.count());
    return orders.count();
  } catch (error) {
    // Report the first error. A later import deletes what cannot be deleted now.
    await staging.discard().catch(() => {});
    throw error;
  }
}

async function read(
  bytes: AsyncIterable<Uint8Array>,
  orders: SortedOrders,
): Promise<SourceElement["kind"]> {
  let kind: SourceElement["kind"] = "line";
  for await (const elements of readElements(bytes)) {
    for (const element of elements) {
      kind = element.kind;
      orders.add(element.number, parseElement(element));
    }
  }
  return kind;
}

function parseElement(element: SourceElement): ReturnType<typeof parseOrder> {
  try {
    return parseOrder(element.text);
  } catch (error) {
    throw new ElementError(element, (error as Error).message);
  }
}

async function stage(staging: Staging, orders: SortedOrders): Promise<void> {
  using progress = startProgress({ doing: "Sending", unit: "orders", total: orders.count() });
  for (const text of orders.texts()) {
    staging.add(text);
    if (staging.isFull) await staging.flush();
    progress.advance(1);
  }
  await staging.finish();
}

async function place(
  database: StoreDatabase,
  importId: string,
  kind: SourceElement["kind"],
  orderCount: number,
): Promise<void> {
  using _ = startProgress({ doing: "Placing the orders" });
  const chunks = await readChunkIds(database, importId);
  const refuse = async () => {
    const refused = await findRefusedLine(database, importId, chunks);
    if (refused === null) return;
    throw new ElementError(
      { kind, number: refused.line },
      `order ${refused.id} has shipped, which cannot be turned back`,
    );
  };
  await refuse();
  const isBulk = await isBulkChange(database, orderCount);
  try {
    await database.transaction(placeStatements(importId, chunks, isBulk));
  } catch (error) {
    // If the database refused because an order shipped meanwhile, name its line instead.
    await refuse();
    throw error;
  }
}
