import { PIECES, PIECES_OF_VALUES, SEPARATOR } from "./letters.ts";

/** The exports of `expand-orders.wat`. The parameters of `expand` are addresses in bytes. */
export interface Expansion {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  expand(read: number, end: number, write: number, pieces: number): number;
}

/** The JSON before the first order and after the last order of a piece of the list. */
interface ArrayEnds {
  readonly opening: "[" | ",";
  readonly closing: "]" | "";
}

// The layout of the WebAssembly memory, in bytes. It begins with a table by ASCII code. Each entry
// has the JSON of a letter, the length to write before a value, and the length before a letter.
const PIECES_AT = 0;
const PIECE_BYTES = 32;
const LENGTH_BEFORE_VALUE_AT = 24;
const LENGTH_BEFORE_LETTER_AT = 25;
const SHORTHAND_AT = PIECES_AT + 128 * PIECE_BYTES;

/**
 * Spare bytes after the shorthand and after the JSON, because the WebAssembly loop goes past both
 * ends. The bytes after the shorthand do not affect the JSON of its last letter.
 */
const SLACK_BYTES = 32;
const MEMORY_PAGE_BYTES = 65_536;

/** An upper bound of JSON bytes per shorthand byte: at worst, the 8 bytes `i1p1q1sf` become 49. */
const MAX_GROWTH = 7;

const FIRST_PIECE = PIECES[SEPARATOR].slice(1);

const encoder = new TextEncoder();

/** Converts orders to JSON. Reuses its memory, because allocating takes longer than filling it. */
export class OrderExpander {
  readonly #expansion: Expansion;

  constructor(expansion: Expansion) {
    this.#expansion = expansion;
    for (const [letter, piece] of Object.entries(PIECES)) this.#set(letter, piece, piece.length);
    for (const [letter, piece] of Object.entries(PIECES_OF_VALUES)) this.#set(letter, piece, 0);
  }

  /** Converts complete orders from shorthand to JSON objects that are separated by commas. */
  expand(shorthand: string, { opening, closing }: ArrayEnds): Uint8Array<ArrayBuffer> {
    const shorthandEnd = SHORTHAND_AT + shorthand.length;
    const jsonAt = shorthandEnd + SLACK_BYTES;
    const maxJsonBytes = FIRST_PIECE.length + shorthand.length * MAX_GROWTH;
    const memory = this.#memory(jsonAt + maxJsonBytes + SLACK_BYTES);
    const write = (ascii: string, at: number) =>
      at + encoder.encodeInto(ascii, memory.subarray(at)).written;

    write(shorthand, SHORTHAND_AT);
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

  #memory(bytes: number): Uint8Array<ArrayBuffer> {
    const { memory } = this.#expansion;
    const missing = bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / MEMORY_PAGE_BYTES));
    return new Uint8Array(memory.buffer);
  }
}
