import { errorMessage, typedLine } from "../command-line.ts";
import { NotConfirmedError } from "../confirmation.ts";
import type { StoreDatabase } from "../database/database.ts";
import { parseOrder } from "./parse-order.ts";
import { compareParts, type Comparison, place } from "./placement.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { ElementError, readElements } from "./source.ts";
import {
  discardParts,
  importIdOf,
  readStoredParts,
  type StagedImport,
  storeParts,
} from "./staging.ts";

interface ImportOptions {
  /** If true, fails unless the store has a part of this import. Stored parts are always reused. */
  readonly resume?: boolean;
  /** Ends the import, unless the database has begun to write to the table `orders`. */
  readonly signal?: AbortSignal;
  /** Called before the table `orders` changes. Throws a `NotConfirmedError` to end the import. */
  readonly confirm?: (comparison: Comparison) => Promise<void>;
}

/** Thrown if the store no longer has all parts that this import stored. */
class PartsGoneError extends Error {
  override readonly message =
    "parts of this import are gone: it was completed, here or by another import of the same file, or " +
    "they were removed. Look at the orders (export) before you import the file again";
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
  for await (const elements of readElements(bytes)) {
    for (const element of elements) {
      orders.kind = element.kind;
      try {
        orders.add(element.number, parseOrder(element.text));
      } catch (error) {
        throw new ElementError(element, (error as Error).message);
      }
    }
  }
}

/**
 * Imports the orders of a file, either all orders or none. Does not send the parts that an earlier,
 * unfinished import of the same orders has stored.
 *
 * @returns how the orders differed from the stored orders before the import.
 * @throws {ElementError} for the first order that would make a shipped order pending again; an
 *   Error for the operator for every other failure.
 */
export async function importOrders(
  database: StoreDatabase,
  orders: SortedOrders,
  { resume = false, signal, confirm = async () => {} }: ImportOptions = {},
): Promise<Comparison> {
  const importId = importIdOf(orders);
  const stored = await readStoredParts(database, importId);
  if (resume && stored.size === 0) {
    throw new Error(
      "the store has no part of this file: its import was completed, or it was an import of another " +
        "file, or housekeeping removed the parts after a day. Nothing was changed; look at the orders " +
        "(export), or import without --resume",
    );
  }
  try {
    const staged = await storeParts(database, importId, orders, stored, signal);
    const comparison = await compareParts(database, staged);
    await confirm(comparison);
    signal?.throwIfAborted();
    using _ = startProgress({ doing: "Placing the orders" });
    await place(database, staged, orders.count()).catch(async (error: unknown) => {
      throw (await explainFailure(database, staged)) ?? error;
    });
    // The transaction deletes the parts. If parts are left, another import of the same file has
    // stored them since, or Cloudflare reported success without running the transaction.
    const left = await readStoredParts(database, importId);
    const missing = left.size === 0 ? null : await compareParts(database, staged);
    if (missing !== null && missing.new + missing.replaced + missing.shipped > 0) {
      throw new Error("the database reported success, but placed no order");
    }
    return comparison;
  } catch (error) {
    if (error instanceof PartsGoneError) throw error;
    if (error instanceof ElementError || error instanceof NotConfirmedError) {
      // Ignores a failure to delete the parts, because housekeeping deletes them later.
      await discardParts(database, importId).catch(() => {});
      throw error;
    }
    throw new Error(
      `${errorMessage(error)}. The store keeps for a day what was sent. To continue, or to learn that ` +
        `nothing is left to do, repeat the command with --resume:\n  ${typedLine({ "--resume": true })}`,
      { cause: error },
    );
  }
}

/** Finds out why the orders of an import could not be written to `orders`; `null` if unknown. */
async function explainFailure(
  database: StoreDatabase,
  staged: StagedImport,
): Promise<Error | null> {
  try {
    const { size } = await readStoredParts(database, staged.importId);
    if (size !== staged.partCount) return new PartsGoneError();
    await compareParts(database, staged);
  } catch (error) {
    if (error instanceof ElementError) return error;
  }
  return null;
}
