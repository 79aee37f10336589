import { sql } from "drizzle-orm";
import { orders } from "../db/schema.ts";
import { JSON_MEMBERS, MAX_ORDER_BYTES } from "./order-json.ts";

/** Stands between two orders in shorthand. */
const SEPARATOR = "i";

const JSON_START = `{${JSON_MEMBERS.id}`;

/** What letters that come before a value are written out as: as nothing, where the value is missing. */
const PIECES_OF_VALUES = {
  p: JSON_MEMBERS.petId,
  q: JSON_MEMBERS.quantity,
  s: JSON_MEMBERS.shipDate,
};

/** What all other letters of the shorthand are written out as, those of a date included. */
const PIECES = {
  [SEPARATOR]: `,${JSON_START}`,
  T: "T",
  Z: `Z${JSON_MEMBERS.afterShipDate}`,
  t: `${JSON_MEMBERS.complete}}`,
  f: `${JSON_MEMBERS.incomplete}}`,
  n: `${JSON_MEMBERS.neither}}`,
};

/**
 * SQL for an order in shorthand: its JSON text with a letter for each piece that recurs. A result of
 * D1's is written as JSON text and parsed again on its way to the Worker; a text of half the length,
 * without a quote that would have to be escaped, takes half the time. `concat` takes a missing value
 * as an empty text.
 */
export const orderShorthand = sql<string>`concat(${orders.id}, 'p', ${orders.petId}, 'q', ${orders.quantity}, 's', ${orders.shipDate},
  CASE ${orders.complete} WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE 'n' END)`;

/** SQL that joins orders, of which a subquery has named the shorthand `shorthand`. */
export const joinedShorthand = sql<string | null>`group_concat(shorthand, '${sql.raw(SEPARATOR)}')`;

/** The id of the last of those orders, which is the greatest where they are in order. */
export function lastIdIn(shorthand: string): bigint {
  const start = shorthand.lastIndexOf(SEPARATOR) + 1;
  return BigInt(shorthand.slice(start, shorthand.indexOf("p", start)));
}

/** The length of the longest order in shorthand, with the separator. */
export const MAX_SHORTHAND_BYTES =
  "i-9223372036854775808p-9223372036854775808q-9223372036854775808s0000-00-00T00:00:00.000Zn"
    .length;

/** What `expand-orders.wat` exports; addresses are in bytes. */
export interface Expansion {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  expand(read: number, end: number, write: number, pieces: number): number;
}

/** Which part of a JSON array a run of orders is. */
export interface ArrayPart {
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** Where the memory of the expansion has what. */
const PIECES_AT = 0;
const PIECE_BYTES = 32;
const LENGTH_BEFORE_VALUE_AT = 24;
const LENGTH_BEFORE_LETTER_AT = 25;
const SHORTHAND_AT = PIECES_AT + 128 * PIECE_BYTES;

/** The expansion reads and writes whole words, so beyond the ends. */
const SLACK_BYTES = 32;
const MEMORY_PAGE_BYTES = 65_536;

const encoder = new TextEncoder();

/** Writes out orders in shorthand as JSON. Its memory is kept, because it costs more to get than to fill. */
export class OrderExpander {
  readonly #expansion: Expansion;

  constructor(expansion: Expansion) {
    this.#expansion = expansion;
    for (const [letter, piece] of Object.entries(PIECES)) this.#set(letter, piece, piece.length);
    for (const [letter, piece] of Object.entries(PIECES_OF_VALUES)) this.#set(letter, piece, 0);
  }

  /**
   * Writes out orders in shorthand as a part of a JSON array.
   *
   * @param shorthand of whole orders, the separator between them; empty where there is none.
   * @param count how many they are.
   */
  expand(
    shorthand: string,
    count: number,
    { isFirst, isLast }: ArrayPart,
  ): Uint8Array<ArrayBuffer> {
    const shorthandEnd = SHORTHAND_AT + shorthand.length;
    const start = shorthandEnd + SLACK_BYTES;
    const memory = this.#memory(start + count * MAX_ORDER_BYTES + SLACK_BYTES);
    const write = (text: string, at: number) =>
      at + encoder.encodeInto(text, memory.subarray(at)).written;

    write(shorthand, SHORTHAND_AT);
    let end = start;
    if (isFirst) end = write("[", end);
    if (count > 0) {
      end = write(isFirst ? JSON_START : `,${JSON_START}`, end);
      end = this.#expansion.expand(SHORTHAND_AT, shorthandEnd, end, PIECES_AT);
    }
    if (isLast) end = write("]", end);
    return memory.slice(start, end);
  }

  #set(letter: string, piece: string, lengthBeforeLetter: number): void {
    const at = PIECES_AT + letter.charCodeAt(0) * PIECE_BYTES;
    const entry = new Uint8Array(this.#expansion.memory.buffer, at, PIECE_BYTES);
    encoder.encodeInto(piece, entry);
    entry[LENGTH_BEFORE_VALUE_AT] = piece.length;
    entry[LENGTH_BEFORE_LETTER_AT] = lengthBeforeLetter;
  }

  /** The memory, grown to as many bytes at least. */
  #memory(bytes: number): Uint8Array<ArrayBuffer> {
    const { memory } = this.#expansion;
    const missing = bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / MEMORY_PAGE_BYTES));
    return new Uint8Array(memory.buffer);
  }
}
