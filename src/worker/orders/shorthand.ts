import { sql } from "drizzle-orm";
import { orders } from "../db/orders-schema.ts";
import { JSON_MEMBERS } from "./order-json.ts";

/**
 * SQL for an order in shorthand: its JSON text with one letter for each piece that recurs. D1 writes
 * a result as JSON text, which the Worker parses again; a text of half the length without quotes to
 * escape takes half the time. `concat` treats a missing value as an empty text.
 */
export const orderShorthand = sql<string>`concat(${orders.id}, 'p', ${orders.petId}, 'q', ${orders.quantity}, 's', ${orders.shipDate},
  CASE ${orders.complete} WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE 'n' END)`;

/** Separates two orders in shorthand. */
export const SEPARATOR = "i";

/** The JSON that precedes each value; omitted if the value is missing. */
export const PIECES_OF_VALUES = {
  p: JSON_MEMBERS.petId,
  q: JSON_MEMBERS.quantity,
  s: JSON_MEMBERS.shipDate,
};

/** The JSON that replaces every other letter, those of a date included. */
export const PIECES = {
  [SEPARATOR]: `,{${JSON_MEMBERS.id}`,
  T: "T",
  Z: `Z${JSON_MEMBERS.afterShipDate}`,
  t: `${JSON_MEMBERS.complete}}`,
  f: `${JSON_MEMBERS.incomplete}}`,
  n: `${JSON_MEMBERS.neither}}`,
};

/** Separates two shorthands in one text; occurs in none. */
const LINE_END = "\n";

/** The shorthand of a segment's orders in ascending id, in ASCII letters. Immutable. */
export class Shorthand {
  readonly text: string;

  /** @param text not a part of a longer string, which would stay in memory as a whole. */
  constructor(text: string) {
    this.text = text;
  }

  /** The text of several shorthands, for `split`. */
  static join(shorthands: readonly Shorthand[]): string {
    return shorthands.map(({ text }) => text + LINE_END).join("");
  }

  /** The reverse of `join`, from bytes. */
  static split(bytes: Uint8Array<ArrayBuffer>): Shorthand[] {
    const decoder = new TextDecoder();
    const shorthands: Shorthand[] = [];
    for (let start = 0; start < bytes.length;) {
      const end = bytes.indexOf(LINE_END.charCodeAt(0), start);
      shorthands.push(new Shorthand(decoder.decode(bytes.subarray(start, end))));
      start = end + 1;
    }
    return shorthands;
  }

  /** The length in bytes. */
  get length(): number {
    return this.text.length;
  }

  /**
   * The end of a slice of whole orders that begins at `start`.
   *
   * @param minBytes the least length of the slice, unless the shorthand ends before.
   * @returns the place of a separator, or the length of the shorthand.
   */
  sliceEnd(start: number, minBytes: number): number {
    const end = this.text.indexOf(SEPARATOR, start + minBytes);
    return end === -1 ? this.length : end;
  }
}
