/** The unparsed text of one order in the file of an import. */
export interface SourceElement {
  readonly kind: "line" | "element";
  /** The number of the line or array element in the file, from 1. */
  readonly number: number;
  /** The JSON text, not yet parsed. */
  readonly text: string;
}

/**
 * Splits the text of an imported file, which arrives in pieces, into its lines or array elements.
 */
export interface Splitter {
  /** Appends the next piece of the file's text, and returns the elements that are complete now. */
  push(text: string): Iterable<SourceElement>;
  /**
   * Marks the end of the file's text. Returns the last element if `push` has not returned it yet.
   */
  end(): Iterable<SourceElement>;
}

/**
 * The largest length of a line or array element of an import, so that a file without line breaks is
 * not read into memory.
 */
export const MAX_ELEMENT_CHARACTERS = 65_536;

/** Returns whether a text consists only of JSON white space (RFC 8259, section 2). */
export function isBlank(text: string): boolean {
  return !/[^ \t\r\n]/.test(text);
}

/** Thrown if a line or an array element of an import is wrong. The message names its number. */
export class ElementError extends Error {
  override readonly name = "ElementError";

  constructor({ kind, number }: Pick<SourceElement, "kind" | "number">, fault: string) {
    super(`${kind} ${number}: ${fault}`);
  }
}
