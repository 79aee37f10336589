import { sql } from "drizzle-orm";
import { orders } from "../db/schema.ts";
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

const encoder = new TextEncoder();

/** The shorthand of a segment's orders as ASCII bytes, in ascending id. Immutable. */
export class Shorthand {
  readonly bytes: Uint8Array<ArrayBuffer>;

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes;
  }

  static fromText(text: string): Shorthand {
    const bytes = new Uint8Array(text.length);
    encoder.encodeInto(text, bytes);
    return new Shorthand(bytes);
  }

  /** The length in bytes. */
  get length(): number {
    return this.bytes.length;
  }

  /**
   * The end of a slice of whole orders that begins at `start`.
   *
   * @param minBytes the least length of the slice, unless the shorthand ends before.
   * @returns the place of a separator, or the length of the shorthand.
   */
  sliceEnd(start: number, minBytes: number): number {
    const end = this.bytes.indexOf(SEPARATOR.charCodeAt(0), start + minBytes);
    return end === -1 ? this.length : end;
  }
}
