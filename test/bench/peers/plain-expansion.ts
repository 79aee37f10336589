import type { Expansion } from "../../../src/worker/orders/order-expander.ts";

const PIECE_BYTES = 32;
const LENGTHS_AT = 24;
/** A bit that is set in ASCII letters, and clear in digits and in the characters `-:.`. */
const LETTER_BIT = 0x40;
const MEMORY_PAGE_BYTES = 65_536;

let bytes = new Uint8Array(MEMORY_PAGE_BYTES);

/**
 * Expands a shorthand, in which letters replace recurring pieces of JSON. This loop does the same
 * as `expand-orders.wat`, in plain TypeScript.
 *
 * @returns the index in `bytes` at which the JSON ends.
 */
function expand(start: number, end: number, jsonStart: number, pieces: number): number {
  let write = jsonStart;
  for (let read = start; read < end;) {
    const byte = bytes[read++] ?? 0;
    if ((byte & LETTER_BIT) === 0) {
      bytes[write++] = byte;
      continue;
    }
    const piece = pieces + byte * PIECE_BYTES;
    const isBeforeLetter = (bytes[read] ?? 0) >> 6;
    const length = bytes[piece + LENGTHS_AT + isBeforeLetter] ?? 0;
    for (let index = 0; index < length; index += 1) bytes[write++] = bytes[piece + index] ?? 0;
  }
  return write;
}

const exports: Expansion = {
  memory: {
    get buffer() {
      return bytes.buffer;
    },
    grow(pages) {
      const before = bytes;
      bytes = new Uint8Array(before.length + pages * MEMORY_PAGE_BYTES);
      bytes.set(before);
      return before.length / MEMORY_PAGE_BYTES;
    },
  },
  expand,
};

// The service calls `expand` of the WebAssembly module that it instantiates. This class makes the
// service use the TypeScript version instead.
Object.assign(WebAssembly, {
  Instance: class {
    readonly exports = exports;
  },
});
