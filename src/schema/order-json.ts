import { type SQL, sql, type SQLWrapper } from "drizzle-orm";
import { ORDER_FIELD_NAMES, orders } from "./orders.ts";

/**
 * Orders on their way from the database to JSON. SQL writes only their values, because a result of
 * D1 that is twice as long, with quotes to escape, takes twice the processor time:
 *
 *     1001|501||2026-11-20T08:30:00.000Z|false|1002|…        valuesOf
 *     ,{"id":1001,"petId":501,"shipDate":"2026-11-20T08:30:00.000Z","complete":false},{"id":1002…
 *
 * A value is JSON, or nothing if the order lacks it.
 */

type OrderField = keyof typeof orders.$inferSelect;

/** The fields that the API shows, in its sequence. */
const FIELDS: readonly OrderField[] = ["id", ...ORDER_FIELD_NAMES];

/** Texts in which a CHECK allows no character that JSON escapes. They get their quotes at the end. */
const PLAIN_TEXTS: ReadonlySet<OrderField> = new Set(["shipDate"]);

const SEPARATOR = "|";
const separator = sql.raw(`'${SEPARATOR}'`);

/** Returns a SQL expression for the values of an order. `concat` treats `NULL` as empty text. */
export function valuesOf(columns: Readonly<Partial<Record<OrderField, SQLWrapper>>>): SQL {
  const values = FIELDS.map((field) => {
    const column = sql`${columns[field]}`;
    const { dataType } = orders[field];
    if (dataType === "boolean")
      return sql`CASE ${column} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END`;
    if (dataType !== "string" || PLAIN_TEXTS.has(field)) return column;
    return sql`iif(${column} IS NULL, '', replace(json_quote(${column}), ${separator}, '\\u007c'))`;
  });
  return sql`concat(${sql.join(values, sql`, ${separator}, `)})`;
}

/** Returns a SQL expression that joins the column `order_values` of `select` into one text. */
export function joined(select: SQL): SQL {
  return sql`(SELECT ifnull(group_concat(order_values, ${separator}), '') FROM (${select}))`;
}

const encoder = new TextEncoder();
const SEPARATOR_BYTE = SEPARATOR.charCodeAt(0);

const quoteOf = (field: OrderField) => (PLAIN_TEXTS.has(field) ? '"' : "");
/** What is written before and after each value, and after each order. */
const BEFORE = FIELDS.map((field, index) =>
  encoder.encode(`${index === 0 ? ",{" : ","}"${field}":${quoteOf(field)}`),
);
const AFTER = FIELDS.map((field) => encoder.encode(quoteOf(field)));
const END = encoder.encode("}");
/** The most bytes of JSON that an order has besides its values. */
const FRAME_BYTES = [...BEFORE, ...AFTER, END].reduce((sum, { length }) => sum + length, 0);

/** Converts values to JSON. Reuses its memory, because allocating takes longer than filling it. */
export class OrderWriter {
  #values = new Uint8Array();
  #json = new Uint8Array();

  /** Returns the JSON of the orders of a text. Each order must have its first field. */
  json(text: string): Uint8Array<ArrayBuffer> {
    if (text === "") return new Uint8Array();
    const values = (this.#values = atLeast(3 * text.length + 1, this.#values));
    const end = encoder.encodeInto(text, values).written;
    values[end] = SEPARATOR_BYTE;
    // The shortest order has one digit, and a separator after each field.
    const mostOrders = Math.ceil((end + 1) / (FIELDS.length + 1));
    const json = (this.#json = atLeast(end + mostOrders * FRAME_BYTES, this.#json));
    let at = 0;
    let field = 0;
    for (let read = 0; read <= end; read += 1) {
      if (values[read] !== SEPARATOR_BYTE) {
        at = write(BEFORE[field], json, at);
        for (; values[read] !== SEPARATOR_BYTE; read += 1) json[at++] = values[read] as number;
        at = write(AFTER[field], json, at);
      }
      field += 1;
      if (field === FIELDS.length) {
        at = write(END, json, at);
        field = 0;
      }
    }
    return json.slice(0, at);
  }
}

function atLeast(bytes: number, memory: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return memory.length >= bytes ? memory : new Uint8Array(bytes);
}

const NOTHING = new Uint8Array();

/** Copies a few bytes: for these, a loop is faster than `set`. Returns the end of the copy. */
function write(piece: Uint8Array = NOTHING, json: Uint8Array, start: number): number {
  let at = start;
  for (let read = 0; read < piece.length; read += 1) json[at++] = piece[read] as number;
  return at;
}
