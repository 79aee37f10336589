/** One order of an import as it is in the file. */
export interface SourceElement {
  readonly kind: "line" | "element";
  /** The number of the line or element, from 1. */
  readonly number: number;
  /** The JSON text, not yet parsed. */
  readonly text: string;
}

/** Splits a text that arrives in parts into its elements. */
export interface Splitter {
  /** Takes the next part and returns the elements that it completes. */
  push(text: string): Iterable<SourceElement>;
  /** Ends the text and returns what is left. */
  end(): Iterable<SourceElement>;
}

/** Keeps a file without line ends out of memory. An order is far shorter. */
export const MAX_ELEMENT_CHARACTERS = 65_536;

/** Returns whether a text is nothing but JSON's white space (RFC 8259, section 2). */
export function isBlank(text: string): boolean {
  return !/[^ \t\r\n]/.test(text);
}

/** A fault in one line or element of an import, for the operator. */
export class ElementError extends Error {
  override readonly name = "ElementError";

  constructor({ kind, number }: Pick<SourceElement, "kind" | "number">, fault: string) {
    super(`${kind} ${number}: ${fault}`);
  }
}
