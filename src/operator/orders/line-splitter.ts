import {
  ElementError,
  isBlank,
  MAX_ELEMENT_CHARACTERS,
  type SourceElement,
  type Splitter,
} from "./source-element.ts";

/** Newline-delimited JSON: one element a line. Blank lines are passed over, but counted. */
export class LineSplitter implements Splitter {
  #number: number;
  /** The beginning of a line whose end has not arrived. */
  #rest = "";

  /** @param firstLine the number of the line that the text begins with. */
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
