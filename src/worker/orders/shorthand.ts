import { JSON_MEMBERS } from "./order-json.ts";

/**
 * A SQL expression for an order in shorthand: JSON with one letter for each recurring piece of
 * text. D1 encodes results as JSON, which the Worker parses. Both steps take half as long as for an
 * order's JSON, because shorthand is half as long and has no quotes to escape. `concat` treats
 * `NULL` as empty text.
 */
export const ORDER_SHORTHAND = `concat(orders.id, 'p', orders.pet_id, 'q', orders.quantity, 's', orders.ship_date,
  CASE orders.complete WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE 'n' END)`;

/** The character between two orders in shorthand. */
export const SEPARATOR = "i";

/**
 * The JSON that replaces a letter before a value. If the value is missing, the letter is replaced
 * with nothing.
 */
export const PIECES_OF_VALUES = {
  p: JSON_MEMBERS.petId,
  q: JSON_MEMBERS.quantity,
  s: JSON_MEMBERS.shipDate,
};

/** The JSON that replaces all other letters, including the letters `T` and `Z` of a date. */
export const PIECES = {
  [SEPARATOR]: `,{${JSON_MEMBERS.id}`,
  T: "T",
  Z: `Z${JSON_MEMBERS.afterShipDate}`,
  t: `${JSON_MEMBERS.complete}}`,
  f: `${JSON_MEMBERS.incomplete}}`,
  n: "}",
};

/** The terminator of each shorthand in a joined text. A shorthand never contains it. */
const LINE_END = "\n";

/** The orders of a segment in shorthand: ASCII text, in ascending order of ids. Immutable. */
export class Shorthand {
  readonly text: string;

  /**
   * @param text must not be a slice of a longer string, because V8 would keep the longer string in
   *   memory.
   */
  constructor(text: string) {
    this.text = text;
  }

  /** Joins several shorthands into one text, which `split` can read. */
  static join(shorthands: readonly Shorthand[]): string {
    return shorthands.map(({ text }) => text + LINE_END).join("");
  }

  /** Splits the bytes of a joined text into its shorthands. Omits a shorthand that is cut off. */
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

  /** The length of the shorthand in bytes. */
  get length(): number {
    return this.text.length;
  }

  /**
   * Returns the end of a slice that begins at `start` and contains only complete orders.
   *
   * @param minBytes the minimum length of the slice, unless the shorthand ends earlier.
   * @returns the index of a separator, or the length of the shorthand.
   */
  sliceEnd(start: number, minBytes: number): number {
    const end = this.text.indexOf(SEPARATOR, start + minBytes);
    return end === -1 ? this.length : end;
  }
}
