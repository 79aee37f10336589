import { type AnyColumn, type SQL, sql } from "drizzle-orm";
import { orders } from "../db/schema.ts";

/** What is written around the values of an order. */
export interface OrderPieces {
  readonly id: string;
  readonly petId: string;
  readonly quantity: string;
  readonly shipDate: string;
  readonly afterShipDate: string;
  readonly complete: string;
  readonly incomplete: string;
  /** Where it is not known whether the order is complete. */
  readonly neither: string;
}

/** The members of an order's JSON object, without the braces. */
export const JSON_MEMBERS: OrderPieces = {
  id: '"id":',
  petId: ',"petId":',
  quantity: ',"quantity":',
  shipDate: ',"shipDate":"',
  afterShipDate: '"',
  complete: ',"complete":true',
  incomplete: ',"complete":false',
  neither: "",
};

/** The length of the longest order as JSON text, with its braces and the comma after it. */
export const MAX_ORDER_BYTES = "{},".length + maxOrderTextBytes(JSON_MEMBERS);

/**
 * SQL for the text of one order. SQLite writes it because it writes int64 digit for digit, which
 * D1's own results do not; nothing needs escaping, as the schema admits only digits and one form of
 * date.
 */
export function orderText(pieces: OrderPieces): SQL<string> {
  const { id, petId, quantity, shipDate, afterShipDate, complete, incomplete, neither } = pieces;
  return sql<string>`${concatenation(id, orders.id)}
  || coalesce(${concatenation(petId, orders.petId)}, '')
  || coalesce(${concatenation(quantity, orders.quantity)}, '')
  || coalesce(${concatenation(shipDate, orders.shipDate, afterShipDate)}, '')
  || CASE ${orders.complete} WHEN 1 THEN ${literal(complete)} WHEN 0 THEN ${literal(incomplete)} ELSE ${literal(neither)} END`;
}

/** The length of the longest text that such SQL writes. */
export function maxOrderTextBytes(pieces: OrderPieces): number {
  const { id, petId, quantity, shipDate, afterShipDate, complete, incomplete, neither } = pieces;
  const always = [id, petId, quantity, shipDate, afterShipDate].join("").length;
  const last = Math.max(...[complete, incomplete, neither].map((piece) => piece.length));
  return always + 3 * "-9223372036854775808".length + "0000-00-00T00:00:00.000Z".length + last;
}

function concatenation(...parts: readonly (string | AnyColumn)[]): SQL {
  const written = parts.filter((part) => part !== "");
  return sql.join(
    written.map((part) => (typeof part === "string" ? literal(part) : sql`${part}`)),
    sql` || `,
  );
}

function literal(text: string): SQL {
  return sql.raw(`'${text}'`);
}
