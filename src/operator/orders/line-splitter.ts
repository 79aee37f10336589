import {
  ElementError,
  isBlank,
  MAX_ELEMENT_CHARACTERS,
  type SourceElement,
  type Splitter,
} from "./splitter.ts";

/**
 * Splits newline-delimited JSON into lines. Skips blank lines, but includes them in line numbers.
 */
export class LineSplitter implements Splitter {
  #number: number;
  /** The text after the last line break so far, which is an incomplete line. */
  #rest = "";

  /**
   * @param firstLine the line number, in the imported file, at which the text for `push` begins.
   */
  constructor(firstLine: number) {
    this.#number = firstLine;
  }

  *push(text: string): Generator<SourceElement> {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      yield* this.#element(line);
      this.#number += 1;
    }
    this.#checkLength(this.#rest);
  }

  *end(): Generator<SourceElement> {
    yield* this.#element(this.#rest);
    this.#rest = "";
  }

  *#element(text: string): Generator<SourceElement> {
    this.#checkLength(text);
    if (!isBlank(text)) yield { kind: "line", number: this.#number, text };
  }

  #checkLength(text: string): void {
    if (text.length <= MAX_ELEMENT_CHARACTERS) return;
    throw new ElementError(
      { kind: "line", number: this.#number },
      `longer than ${MAX_ELEMENT_CHARACTERS} characters`,
    );
  }
}
