import { sql } from "drizzle-orm";
import { orders } from "../db/schema.ts";
import { MAX_ORDER_BYTES } from "./order-json.ts";

/**
 * The letter that stands for each piece of JSON text which recurs. A result of D1's is written as
 * JSON text and parsed again on its way here: a text of half the length, without a quote that would
 * have to be escaped, takes half the time. What stands between the letters (digits, `-:.`, `T` and
 * `Z`) is sent as SQLite wrote it, which is digit for digit.
 */
const PIECES = {
  i: ',{"id":',
  p: ',"petId":',
  q: ',"quantity":',
  s: ',"shipDate":"',
  e: '"',
  t: ',"complete":true}',
  f: ',"complete":false}',
  n: "}",
};

/** SQL for an order in shorthand. The schema admits nothing in it but digits and one form of date. */
export const orderShorthand = sql<string>`'i' || ${orders.id}
  || coalesce('p' || ${orders.petId}, '')
  || coalesce('q' || ${orders.quantity}, '')
  || coalesce('s' || ${orders.shipDate} || 'e', '')
  || CASE ${orders.complete} WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE 'n' END`;

/** The length of the longest order in shorthand. */
export const MAX_SHORTHAND_BYTES =
  "i-9223372036854775808p-9223372036854775808q-9223372036854775808s0000-00-00T00:00:00.000Zen"
    .length;

/** Both bits are set in every lower-case letter, and in no other character that occurs. */
const LETTER_BITS = 0x40404040;

const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;

const WORD_BYTES = 4;
const LITTLE_ENDIAN = true;

const encoder = new TextEncoder();
const longestPiece = Math.max(...Object.values(PIECES).map((piece) => piece.length));
const pieceBytes = Math.ceil(longestPiece / WORD_BYTES) * WORD_BYTES;

/** By the code of its letter: how long a piece is, and the piece in as many bytes as the longest. */
const lengths = new Uint8Array(128);
const pieces = new DataView(new ArrayBuffer(128 * pieceBytes));
for (const [letter, piece] of Object.entries(PIECES)) {
  const code = letter.charCodeAt(0);
  lengths[code] = piece.length;
  encoder.encodeInto(piece, new Uint8Array(pieces.buffer, code * pieceBytes, pieceBytes));
}

/** Room for one page, kept because it costs more to allocate than to fill; never in use across an `await`. */
let shorthandRoom = new ArrayBuffer(0);
let jsonRoom = new ArrayBuffer(0);

/** The part of a JSON array that a run of orders is: what comes before its first order, and after its last. */
export interface ArrayEnds {
  readonly opening: "[" | ",";
  readonly closing: "" | "]";
}

/**
 * Writes out orders in shorthand as a part of a JSON array.
 *
 * @param shorthand of whole orders, one after the other; may be empty.
 * @param count how many they are.
 */
export function expandOrders(
  shorthand: string,
  count: number,
  { opening, closing }: ArrayEnds,
): Uint8Array<ArrayBuffer> {
  shorthandRoom = atLeast(shorthand.length + WORD_BYTES, shorthandRoom);
  jsonRoom = atLeast(count * MAX_ORDER_BYTES + pieceBytes, jsonRoom);
  encoder.encodeInto(shorthand, new Uint8Array(shorthandRoom));
  const from = new DataView(shorthandRoom);
  let written = expandInto(new DataView(jsonRoom), from, shorthand.length);
  const json = new Uint8Array(jsonRoom);
  // Every order has a comma before it, which the first of the array does not need.
  if (opening === "[") {
    json[0] = OPENING_BRACKET;
    written ||= 1;
  }
  if (closing === "]") {
    json[written] = CLOSING_BRACKET;
    written += 1;
  }
  return json.slice(0, written);
}

/**
 * Copies words whole; what is too much of one is written over by the next. A function by itself, for
 * what stands beside such a loop keeps the compiler from optimizing it.
 *
 * @returns the bytes written.
 */
function expandInto(to: DataView, from: DataView, length: number): number {
  let read = 0;
  let written = 0;
  while (read < length) {
    const word = from.getInt32(read, LITTLE_ENDIAN);
    to.setInt32(written, word, LITTLE_ENDIAN);
    const letters = word & (word << 1) & LETTER_BITS;
    if (letters === 0) {
      read += WORD_BYTES;
      written += WORD_BYTES;
      continue;
    }
    const before = (31 - Math.clz32(letters & -letters)) >> 3;
    const code = from.getUint8(read + before);
    read += before + 1;
    written += before;
    for (let offset = 0; offset < pieceBytes; offset += WORD_BYTES) {
      const part = pieces.getInt32(code * pieceBytes + offset, LITTLE_ENDIAN);
      to.setInt32(written + offset, part, LITTLE_ENDIAN);
    }
    written += lengths[code] ?? 0;
  }
  return written;
}

function atLeast(bytes: number, room: ArrayBuffer): ArrayBuffer {
  return room.byteLength < bytes ? new ArrayBuffer(bytes) : room;
}
