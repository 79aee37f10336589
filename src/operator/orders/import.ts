import { errorMessage } from "../command-line.ts";
import type { StoreDatabase } from "../database/database.ts";
import { isBulkChange } from "./bulk-change.ts";
import { parseOrder } from "./parse-order.ts";
import { findRefusedLine, placeStatements } from "./placement.ts";
import { startProgress } from "./progress.ts";
import { SortedOrders } from "./sorted-orders.ts";
import { ElementError, type SourceElement } from "./splitter.ts";
import { readElements } from "./source-elements.ts";
import { discardParts, importIdOf, readStoredParts, storeParts } from "./staging.ts";

interface ImportOptions {
  /**
   * If true, the import fails unless the store has at least one part of the same import from an
   * earlier attempt. Parts from earlier attempts are reused even if `resume` is false.
   */
  readonly resume?: boolean;
  /** Called when the database begins to move the orders from the stored parts to `orders`. */
  readonly onPlacing?: (orderCount: number) => void;
}

/** An import whose parts are all in the store, but whose orders are not written to `orders` yet. */
interface StagedImport {
  readonly importId: string;
  readonly partCount: number;
  readonly orderCount: number;
  readonly kind: SourceElement["kind"];
}

/**
 * Thrown if the store no longer has all parts of this import: an import of the same orders was
 * completed, or housekeeping has deleted the parts.
 */
class PartsGoneError extends Error {
  override readonly name = "PartsGoneError";
}

/**
 * Imports the orders of a file, either all orders or none. Reads and checks the whole file before
 * it writes to the store, and meanwhile keeps the orders in a temporary file. Sends the orders in
 * parts, except parts that an earlier, unfinished import of the same orders has stored.
 *
 * @returns the number of imported orders. Orders with the same id count once.
 * @throws {ElementError} if a line or array element is not a valid order, or would make a shipped
 *   order pending again; the message names the first such line or element. An Error for the
 *   operator for every other failure.
 */
export async function importOrders(
  database: StoreDatabase,
  bytes: AsyncIterable<Uint8Array>,
  { resume = false, onPlacing = () => {} }: ImportOptions = {},
): Promise<number> {
  using orders = new SortedOrders();
  const kind = await read(bytes, orders);
  const orderCount = orders.count();
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
    const partCount = await storeParts(database, importId, orders, stored);
    await place(database, { importId, partCount, orderCount, kind }, onPlacing);
    return orderCount;
  } catch (error) {
    if (error instanceof PartsGoneError) throw error;
    if (error instanceof ElementError) {
      // Ignores a failure to delete the parts, because housekeeping deletes them later.
      await discardParts(database, importId).catch(() => {});
      throw error;
    }
    throw new Error(
      `${errorMessage(error)}. The store keeps for a day what was sent: repeat the command with --resume, ` +
        "which continues or says that nothing is left to do",
      { cause: error },
    );
  }
}

/** Reads and checks a file as `importOrders` does. Returns the number of different order ids. */
export async function countOrdersOf(bytes: AsyncIterable<Uint8Array>): Promise<number> {
  using orders = new SortedOrders();
  await read(bytes, orders);
  return orders.count();
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

async function place(
  database: StoreDatabase,
  staged: StagedImport,
  onPlacing: (orderCount: number) => void,
): Promise<void> {
  const refusal = await findRefusal(database, staged);
  if (refusal !== null) throw refusal;
  const { importId, partCount, orderCount } = staged;
  const isBulk = await isBulkChange(database, orderCount);
  using _ = startProgress({ doing: "Placing the orders" });
  onPlacing(orderCount);
  try {
    await database.transaction(placeStatements(importId, partCount, isBulk));
  } catch (error) {
    // Throws the error of the transaction if the reason for the failure cannot be read from the
    // database.
    throw (await explainFailure(database, staged).catch(() => null)) ?? error;
  }
}

/** Finds out why the orders of an import could not be written to `orders`; `null` if unknown. */
async function explainFailure(
  database: StoreDatabase,
  staged: StagedImport,
): Promise<Error | null> {
  const { size } = await readStoredParts(database, staged.importId);
  if (size === staged.partCount) return findRefusal(database, staged);
  return new PartsGoneError(
    "parts of this import are gone: it was completed, here or by another import of the same file, or " +
      "they were removed. Look at the orders (export) before you import the file again",
  );
}

async function findRefusal(
  database: StoreDatabase,
  { importId, partCount, kind }: StagedImport,
): Promise<ElementError | null> {
  const refused = await findRefusedLine(database, importId, partCount);
  if (refused === null) return null;
  return new ElementError(
    { kind, number: refused.line },
    `order ${refused.id} has shipped, which cannot be turned back`,
  );
}
