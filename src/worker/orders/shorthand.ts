import { JSON_MEMBERS } from "./order-json.ts";

/**
 * SQL for an order in shorthand: its JSON with one letter for each recurring piece. D1 encodes
 * results as JSON, which the Worker parses; text of half the length and without quotes to escape takes
 * half the time. `concat` treats a missing value as empty text.
 */
export const ORDER_SHORTHAND = `concat(orders.id, 'p', orders.pet_id, 'q', orders.quantity, 's', orders.ship_date,
  CASE orders.complete WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE 'n' END)`;

/** Separates two orders in shorthand. */
export const SEPARATOR = "i";

/** The JSON that precedes each value; omitted if the value is missing. */
export const PIECES_OF_VALUES = {
  p: JSON_MEMBERS.petId,
  q: JSON_MEMBERS.quantity,
  s: JSON_MEMBERS.shipDate,
};

/** The JSON that replaces every other letter, including the letters of a date. */
export const PIECES = {
  [SEPARATOR]: `,{${JSON_MEMBERS.id}`,
  T: "T",
  Z: `Z${JSON_MEMBERS.afterShipDate}`,
  t: `${JSON_MEMBERS.complete}}`,
  f: `${JSON_MEMBERS.incomplete}}`,
  n: "}",
};

/** Ends each shorthand in a text of several; occurs in no shorthand. */
const LINE_END = "\n";

/** The shorthand of a segment's orders in ascending id, in ASCII letters. Immutable. */
export class Shorthand {
  readonly text: string;

  /** @param text not a slice of a longer string: V8 would keep all of that string in memory. */
  constructor(text: string) {
    this.text = text;
  }

  /** Joins several shorthands into one text, which `split` reads. */
  static join(shorthands: readonly Shorthand[]): string {
    return shorthands.map(({ text }) => text + LINE_END).join("");
  }

  /** Reads the bytes of a joined text. Leaves out a shorthand that is cut off. */
  static split(bytes: Uint8Array<ArrayBuffer>): Shorthand[] {
    const decoder = new TextDecoder();
    const shorthands: Shorthand[] = [];
    for (let start = 0; start < bytes.length;) {
      const end = bytes.indexOf(LINE_END.charCodeAt(0), start);
      if (end === -1) break;
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
   * Returns the end of a slice of complete orders that begins at `start`.
   *
   * @param minBytes the least length of the slice, unless the shorthand ends earlier.
   * @returns the index of a separator, or the length of the shorthand.
   */
  sliceEnd(start: number, minBytes: number): number {
    const end = this.text.indexOf(SEPARATOR, start + minBytes);
    return end === -1 ? this.length : end;
  }
}
