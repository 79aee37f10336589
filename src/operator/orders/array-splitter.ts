import {
  ElementError,
  isBlank,
  MAX_ELEMENT_CHARACTERS,
  type SourceElement,
  type Splitter,
} from "./source-element.ts";

/** Every character at which the state can change, outside a string and inside one. */
const OUTSIDE_STRING = /["[\]{},]/g;
const INSIDE_STRING = /["\\]/g;

/**
 * A JSON array: finds where its elements end, and leaves it to the parser whether each is JSON.
 * Elements are numbered from 1.
 */
export class ArraySplitter implements Splitter {
  #number = 1;
  /** The current element's text as far as it has arrived; until the array begins, what is before. */
  #text = "";
  /** Up to where `#text` has been read. */
  #read = 0;
  /** Brackets that are open: 0 before and after the array, 1 between its elements. */
  #depth = 0;
  #inString = false;
  #isClosed = false;

  *push(text: string): Generator<SourceElement> {
    this.#text += text;
    for (let found = this.#find(); found !== undefined; found = this.#find()) {
      if (this.#inString) this.#leaveString(found);
      else yield* this.#meet(found);
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

  /** The next character that matters; a backslash only together with the character after it. */
  #find(): string | undefined {
    const pattern = this.#inString ? INSIDE_STRING : OUTSIDE_STRING;
    pattern.lastIndex = this.#read;
    const match = this.#isClosed ? null : pattern.exec(this.#text);
    if (match === null) {
      this.#read = this.#text.length;
      return undefined;
    }
    if (match[0] === "\\" && match.index + 1 === this.#text.length) {
      this.#read = match.index;
      return undefined;
    }
    this.#read = match.index + 1;
    return match[0];
  }

  #leaveString(found: string): void {
    if (found === '"') this.#inString = false;
    else this.#read += 1;
  }

  *#meet(found: string): Generator<SourceElement> {
    if (found === '"') {
      this.#inString = true;
    } else if (found === "[" || found === "{") {
      this.#depth += 1;
      if (this.#depth === 1) this.#take();
    } else if (this.#depth === 1) {
      // A brace that closes nothing stays in the text, for the parser to refuse.
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

  /** Removes what has been read, and gives it without its last character. */
  #take(): string {
    const text = this.#text.slice(0, this.#read - 1);
    this.#text = this.#text.slice(this.#read);
    this.#read = 0;
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
