/** The unparsed text of one order in the file of an import. */
export interface SourceElement {
  readonly kind: "line" | "element";
  /** The number of the line or element, from 1. */
  readonly number: number;
  /** The JSON text, not yet parsed. */
  readonly text: string;
}

/** Splits a text that arrives in parts into the elements of an import. */
export interface Splitter {
  /** Appends the next part of the text, and returns the elements that are complete now. */
  push(text: string): Iterable<SourceElement>;
  /** Marks the end of the text. Returns the last element if `push` has not returned it yet. */
  end(): Iterable<SourceElement>;
}

/** The longest allowed element, so that a file without line breaks is not read into memory. */
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
