import {
  ElementError,
  isBlank,
  MAX_ELEMENT_CHARACTERS,
  type SourceElement,
  type Splitter,
} from "./splitter.ts";

/** Match the characters that change the splitter's state, outside and inside a JSON string. */
const OUTSIDE_STRING = /["[\]{},]/g;
const INSIDE_STRING = /["\\]/g;

/**
 * Splits a JSON array into its elements, numbered from 1. Finds only where each element ends. Does
 * not check that an element is valid JSON, because the parser checks that.
 */
export class ArraySplitter implements Splitter {
  #number = 1;
  /** The text after the last complete element. Before the array begins, the text so far. */
  #text = "";
  /** The offset in `#text` of the next character to examine. */
  #offset = 0;
  /** The number of open brackets and braces: 0 outside the array, 1 between its elements. */
  #depth = 0;
  #inString = false;
  #isClosed = false;

  *push(text: string): Generator<SourceElement> {
    this.#text += text;
    for (let found = this.#find(); found !== undefined; found = this.#find()) {
      if (this.#inString) this.#leaveString(found);
      else yield* this.#handle(found);
    }
    if (this.#isClosed) this.#refuseText();
    if (this.#text.length > MAX_ELEMENT_CHARACTERS) {
      throw this.#error(`longer than ${MAX_ELEMENT_CHARACTERS} characters`);
    }
  }

  end(): Iterable<SourceElement> {
    if (this.#isClosed) return [];
    if (isBlank(this.#text)) throw this.#error("the file ends before the array does");
    throw this.#error("the file ends within it");
  }

  /**
   * Finds the next character that changes the state. If a backslash is the last character so far,
   * finds nothing until the character after the backslash is known.
   */
  #find(): string | undefined {
    const pattern = this.#inString ? INSIDE_STRING : OUTSIDE_STRING;
    pattern.lastIndex = this.#offset;
    const match = this.#isClosed ? null : pattern.exec(this.#text);
    if (match === null) {
      this.#offset = this.#text.length;
      return undefined;
    }
    if (match[0] === "\\" && match.index + 1 === this.#text.length) {
      this.#offset = match.index;
      return undefined;
    }
    this.#offset = match.index + 1;
    return match[0];
  }

  #leaveString(found: string): void {
    if (found === '"') this.#inString = false;
    else this.#offset += 1;
  }

  *#handle(found: string): Generator<SourceElement> {
    if (found === '"') {
      this.#inString = true;
    } else if (found === "[" || found === "{") {
      this.#depth += 1;
      if (this.#depth === 1) this.#take();
    } else if (this.#depth === 1) {
      // An unmatched `}` stays in the text of the element, so that JSON.parse rejects the element.
      if (found !== "}") yield* this.#complete(found === "]");
    } else if (found !== ",") {
      this.#depth -= 1;
    }
  }

  *#complete(isLast: boolean): Generator<SourceElement> {
    const text = this.#take();
    const isEmptyArray = isLast && this.#number === 1 && isBlank(text);
    if (!isEmptyArray) {
      if (isBlank(text)) throw this.#error("expected an order");
      yield { kind: "element", number: this.#number, text };
      this.#number += 1;
    }
    this.#isClosed = isLast;
  }

  /**
   * Removes the text up to `#offset`, and returns it without the bracket or comma at its end.
   */
  #take(): string {
    const text = this.#text.slice(0, this.#offset - 1);
    this.#text = this.#text.slice(this.#offset);
    this.#offset = 0;
    return text;
  }

  #refuseText(): void {
    if (!isBlank(this.#text)) throw new Error("there is text after the end of the array");
    this.#text = "";
  }

  #error(fault: string): ElementError {
    return new ElementError({ kind: "element", number: this.#number }, fault);
  }
}
