import type { OrderRecord } from "../../rules/order.ts";
import { errorMessage } from "../command-line.ts";
import { NotConfirmedError } from "../confirmation.ts";
import type { StoreDatabase } from "../database/database.ts";
import {
  compareFile,
  compareParts,
  type Comparison,
  countParts,
  discardParts,
  importIdOf,
  place,
  storeParts,
} from "./placement.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { ElementError, parseOrder, readElements, type SourceElement } from "./source.ts";

interface ImportOptions {
  /** Ends the import, unless the database has begun to write to the table `orders`. */
  readonly signal?: AbortSignal;
  /** Called before the table `orders` changes. Throws a `NotConfirmedError` to end the import. */
  readonly confirm?: (comparison: Comparison) => Promise<void>;
}

/**
 * Adds the orders of a file to `orders`.
 *
 * @throws {ElementError} for the first line or array element that is not a valid order.
 */
export async function readOrders(
  bytes: AsyncIterable<Uint8Array>,
  orders: SortedOrders,
): Promise<void> {
  using progress = startProgress("Reading");
  for await (const element of readElements(bytes)) {
    orders.kind = element.kind;
    orders.add(element.number, parse(element));
    progress.advance(1);
  }
}

function parse(element: SourceElement): OrderRecord {
  try {
    return parseOrder(element.text);
  } catch (error) {
    throw new ElementError(element, (error as Error).message);
  }
}

/**
 * Imports the orders of a file, all or none. Sends only the parts that an earlier, unfinished import
 * of the same orders has not stored.
 *
 * @returns how the orders differed from the stored orders before the import.
 * @throws {ElementError} for the first order that would make a shipped order pending again; an
 *   Error for the operator for every other failure.
 */
export async function importOrders(
  database: StoreDatabase,
  orders: SortedOrders,
  { signal, confirm = async () => {} }: ImportOptions = {},
): Promise<Comparison> {
  const importId = importIdOf(orders);
  try {
    const staged = await storeParts(database, importId, orders, signal);
    const comparison = await compareParts(database, staged);
    if (isUnchanged(comparison)) {
      await discardParts(database, importId);
      return comparison;
    }
    await confirm(comparison);
    signal?.throwIfAborted();
    using _ = startProgress("Placing the orders");
    const failure = await place(database, staged, orders.count()).then(
      () => undefined,
      (error: Error) =>
        /_is_one_row/.test(error.message) ? new Error("parts of this import are gone") : error,
    );
    // Neither success nor failure is believed: an answer can be lost, and another import of the same
    // file may have placed the orders first. The transaction of `place` deletes the parts.
    const isPlaced = failure === undefined && (await countParts(database, importId)) === 0;
    if (isPlaced || isUnchanged(await compareFile(database, orders))) return comparison;
    throw failure ?? new Error("the database reported success, but placed no order");
  } catch (error) {
    if (error instanceof ElementError || error instanceof NotConfirmedError) {
      // If this fails too, housekeeping deletes the parts later.
      await discardParts(database, importId).catch(() => {});
      throw error;
    }
    throw new Error(
      `${errorMessage(error)}. Of the file, all orders are in the store or none: run the same command again`,
      { cause: error },
    );
  }
}

function isUnchanged(comparison: Comparison): boolean {
  return comparison.new + comparison.replaced + comparison.shipped === 0;
}
