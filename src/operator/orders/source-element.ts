/** One order of an import as it stands in the file. */
export interface SourceElement {
  readonly kind: "line" | "element";
  /** Where it stands, from 1. */
  readonly number: number;
  /** Its JSON text, not yet parsed. */
  readonly text: string;
}

/** Cuts a text that arrives in parts into its elements. */
export interface Splitter {
  /** Takes the next part, and gives the elements that it completes. */
  push(text: string): Iterable<SourceElement>;
  /** Gives what is left when the text is over. */
  end(): Iterable<SourceElement>;
}

/** An order is far shorter; the bound keeps a file without line ends out of memory. */
export const MAX_ELEMENT_CHARACTERS = 65_536;

/** Whether a text is nothing but the white space of JSON (RFC 8259, section 2). */
export function isBlank(text: string): boolean {
  return !/[^ \t\r\n]/.test(text);
}

/** What is wrong with one line or element of an import, for the operator. */
export class ElementError extends Error {
  override readonly name = "ElementError";

  constructor({ kind, number }: Pick<SourceElement, "kind" | "number">, fault: string) {
    super(`${kind} ${number}: ${fault}`);
  }
}
