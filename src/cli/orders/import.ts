import type { StoreDatabase } from "../database/database.ts";
import { parseOrder } from "./parse-order.ts";
import { placeStatements, summarize } from "./placement.ts";
import { ElementError, type SourceElement } from "./source-element.ts";
import { readElements } from "./source-elements.ts";
import { Staging } from "./staging.ts";

/**
 * Imports the orders of a file, all or none (contract, section 6).
 *
 * @returns how many orders were placed; duplicates in the file count once.
 * @throws {ElementError} that names the first bad line; other Errors for the operator.
 */
export async function importOrders(
  database: StoreDatabase,
  bytes: AsyncIterable<Uint8Array>,
): Promise<number> {
  const staging = new Staging(database);
  await staging.discardAbandoned(new Date());
  try {
    const kind = await stage(staging, bytes);
    return await place(database, staging.importId, kind);
  } catch (error) {
    // The first error is the one to tell; what stays behind a later import deletes.
    await staging.discard().catch(() => {});
    throw error;
  }
}

async function stage(
  staging: Staging,
  bytes: AsyncIterable<Uint8Array>,
): Promise<SourceElement["kind"]> {
  let kind: SourceElement["kind"] = "line";
  for await (const elements of readElements(bytes)) {
    for (const element of elements) {
      kind = element.kind;
      staging.add(element.number, parseElement(element));
    }
    if (staging.isFull) await staging.flush();
  }
  await staging.finish();
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
  importId: string,
  kind: SourceElement["kind"],
): Promise<number> {
  const { orders } = await checkPlacement(database, importId, kind);
  try {
    await database.transaction(placeStatements(importId));
  } catch (error) {
    // An order may have shipped since: the database refuses, and the line is to be named.
    await checkPlacement(database, importId, kind);
    throw error;
  }
  return orders;
}

async function checkPlacement(
  database: StoreDatabase,
  importId: string,
  kind: SourceElement["kind"],
): Promise<{ orders: number }> {
  const { orders, refused } = await summarize(database, importId);
  if (refused === null) return { orders };
  throw new ElementError(
    { kind, number: refused.line },
    `order ${refused.id} has shipped, which cannot be turned back`,
  );
}
