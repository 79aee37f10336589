import { type SQL, sql, type SQLWrapper } from "drizzle-orm";
import { LISTED_FIELDS, orders } from "./orders.ts";

/**
 * Orders on their way from the database to JSON. SQL writes only their values, because a result of
 * D1 that is twice as long, with quotes to escape, takes twice the processor time:
 *
 *     1001|501||2026-11-20T08:30:00.000Z|0|1002|…        valuesOf
 *     ,{"id":1001,"petId":501,"shipDate":"2026-11-20T08:30:00.000Z","complete":false},{"id":1002…
 *
 * A value is JSON, 0 or 1 for a boolean, or nothing if the order lacks it.
 */

type OrderField = keyof typeof orders.$inferSelect;

/** Texts in which a CHECK allows no character that JSON escapes. They get their quotes at the end. */
const PLAIN_TEXTS: ReadonlySet<OrderField> = new Set(["shipDate"]);

const SEPARATOR = "|";
const separator = sql.raw(`'${SEPARATOR}'`);

/** Returns a SQL expression for the values of an order. `concat` treats `NULL` as empty text. */
export function valuesOf(columns: Readonly<Partial<Record<OrderField, SQLWrapper>>>): SQL {
  const values = LISTED_FIELDS.map((field) => {
    const column = sql`${columns[field]}`;
    const { dataType } = orders[field];
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

const QUOTE_BYTE = '"'.charCodeAt(0);
const END_BYTE = "}".charCodeAt(0);
const TRUE_BYTE = "1".charCodeAt(0);
const WORD_BYTES = 4;

const isQuoted = LISTED_FIELDS.map((field) => PLAIN_TEXTS.has(field));
const isBoolean = LISTED_FIELDS.map((field) => orders[field].dataType === "boolean");

/** What is written before the value of each field, or for a boolean; then for each that is true. */
const FRAMES = ["false", "true"].flatMap((boolean) =>
  LISTED_FIELDS.map((field, at) => {
    const name = `${at === 0 ? ",{" : ","}"${field}":`;
    return encoder.encode(name + (isBoolean[at] ? boolean : isQuoted[at] ? '"' : ""));
  }),
);
const FRAME_BYTES = Int32Array.from(FRAMES, ({ length }) => length);
/** The words of the longest frame. Writing words takes half the time of writing bytes. */
const STRIDE = Math.ceil(Math.max(...FRAME_BYTES) / WORD_BYTES);
const padded = new Uint8Array(FRAMES.length * STRIDE * WORD_BYTES);
FRAMES.forEach((frame, at) => padded.set(frame, at * STRIDE * WORD_BYTES));
const FRAME_WORDS = Uint32Array.from({ length: FRAMES.length * STRIDE }, (_, word) =>
  new DataView(padded.buffer).getUint32(word * WORD_BYTES),
);
/** The most bytes of JSON that an order has besides its values: each boolean is false. */
const MOST_BYTES = FRAME_BYTES.subarray(0, LISTED_FIELDS.length).reduce(
  (sum, bytes) => sum + bytes + 1,
  1,
);

// Reused, because allocating memory takes longer than filling it.
let values = new Uint8Array();
let json = new Uint8Array();

/** Converts values to JSON. */
export function toJson(text: string): Uint8Array<ArrayBuffer> {
  if (text === "") return new Uint8Array();
  values = atLeast(3 * text.length + 1, values);
  const end = encoder.encodeInto(text, values).written;
  values[end] = SEPARATOR_BYTE;
  // The shortest order has one digit, and a separator after each field.
  const mostOrders = Math.ceil((end + 1) / (LISTED_FIELDS.length + 1));
  json = atLeast(end + mostOrders * MOST_BYTES + STRIDE * WORD_BYTES, json);
  const [from, to, view] = [values, json, new DataView(json.buffer)];
  let at = 0;
  for (let read = 0; read <= end; to[at++] = END_BYTE) {
    for (let field = 0; field < LISTED_FIELDS.length; field += 1) {
      if (read > end) throw new Error("An order lacks the separators of its fields.");
      let byte = from[read++] as number;
      if (byte === SEPARATOR_BYTE) continue;
      const frame = isBoolean[field] && byte === TRUE_BYTE ? field + LISTED_FIELDS.length : field;
      for (let word = 0; word < STRIDE; word += 1) {
        view.setUint32(at + word * WORD_BYTES, FRAME_WORDS[frame * STRIDE + word] as number);
      }
      at += FRAME_BYTES[frame] as number;
      if (isBoolean[field]) read += 1;
      else for (; byte !== SEPARATOR_BYTE; byte = from[read++] as number) to[at++] = byte;
      if (isQuoted[field]) to[at++] = QUOTE_BYTE;
    }
  }
  return json.slice(0, at);
}

function atLeast(bytes: number, memory: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return memory.length >= bytes ? memory : new Uint8Array(bytes);
}
