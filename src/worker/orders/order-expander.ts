import { PIECES, PIECES_OF_VALUES, SEPARATOR, type Shorthand } from "./shorthand.ts";

/** The exports of `expand-orders.wat`; addresses are in bytes. */
export interface Expansion {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  expand(read: number, end: number, write: number, pieces: number): number;
}

/** The text before the first order and after the last order. */
interface ArrayEnds {
  readonly opening: "[" | ",";
  readonly closing: "]" | "";
}

// Addresses in the memory of the expansion.
const PIECES_AT = 0;
const PIECE_BYTES = 32;
const LENGTH_BEFORE_VALUE_AT = 24;
const LENGTH_BEFORE_LETTER_AT = 25;
const SHORTHAND_AT = PIECES_AT + 128 * PIECE_BYTES;

/** The expansion reads and writes words of 8 bytes, and so beyond the ends. */
const SLACK_BYTES = 32;
const MEMORY_PAGE_BYTES = 65_536;

/**
 * The most bytes of JSON for a byte of shorthand. `i1p1q1sf` is the worst: 8 bytes become
 * `,{"id":1,"petId":1,"quantity":1,"complete":false}`.
 */
const MAX_GROWTH = 7;

const FIRST_PIECE = PIECES[SEPARATOR].slice(1);

const encoder = new TextEncoder();

/**
 * Writes orders in shorthand as JSON. Keeps its memory between calls, because allocating takes longer
 * than filling.
 */
export class OrderExpander {
  readonly #expansion: Expansion;

  constructor(expansion: Expansion) {
    this.#expansion = expansion;
    for (const [letter, piece] of Object.entries(PIECES)) this.#set(letter, piece, piece.length);
    for (const [letter, piece] of Object.entries(PIECES_OF_VALUES)) this.#set(letter, piece, 0);
  }

  /**
   * Writes orders as JSON objects, separated by commas.
   *
   * @param start the first byte of an order.
   * @param end the end of an order, as `sliceEnd` returns it.
   */
  expand(
    { text }: Shorthand,
    start: number,
    end: number,
    { opening, closing }: ArrayEnds,
  ): Uint8Array<ArrayBuffer> {
    const shorthandEnd = SHORTHAND_AT + end - start;
    const jsonAt = shorthandEnd + SLACK_BYTES;
    const maxJsonBytes = FIRST_PIECE.length + (end - start) * MAX_GROWTH;
    const memory = this.#memory(jsonAt + maxJsonBytes + SLACK_BYTES);
    const write = (ascii: string, at: number) =>
      at + encoder.encodeInto(ascii, memory.subarray(at)).written;

    write(text.slice(start, end), SHORTHAND_AT);
    // The expansion reads the byte after the last letter.
    memory[shorthandEnd] = 0;
    const ordersAt = write(opening + FIRST_PIECE, jsonAt);
    const ordersEnd = this.#expansion.expand(SHORTHAND_AT, shorthandEnd, ordersAt, PIECES_AT);
    return memory.slice(jsonAt, write(closing, ordersEnd));
  }

  #set(letter: string, piece: string, lengthBeforeLetter: number): void {
    const at = PIECES_AT + letter.charCodeAt(0) * PIECE_BYTES;
    const entry = new Uint8Array(this.#expansion.memory.buffer, at, PIECE_BYTES);
    encoder.encodeInto(piece, entry);
    entry[LENGTH_BEFORE_VALUE_AT] = piece.length;
    entry[LENGTH_BEFORE_LETTER_AT] = lengthBeforeLetter;
  }

  /** Returns the memory, grown to at least this many bytes. */
  #memory(bytes: number): Uint8Array<ArrayBuffer> {
    const { memory } = this.#expansion;
    const missing = bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / MEMORY_PAGE_BYTES));
    return new Uint8Array(memory.buffer);
  }
}
