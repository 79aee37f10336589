import { Tokenizer, TokenType } from "@streamparser/json";
import {
  ElementError,
  isBlank,
  MAX_ELEMENT_CHARACTERS,
  type SourceElement,
  type Splitter,
} from "./splitter.ts";

/**
 * Splits a JSON array into its elements, numbered from 1. Finds only where each element ends. Does
 * not check that an element is valid JSON, because the parser checks that.
 */
export class ArraySplitter implements Splitter {
  readonly #tokenizer = new Tokenizer();
  #number = 1;
  /** The bytes after the last complete element. */
  #bytes = Buffer.alloc(0);
  /** The offset of `#bytes` in the array. */
  #start = 0;
  /** The number of open brackets and braces: 0 outside the array, 1 between its elements. */
  #depth = 0;
  #isClosed = false;
  #elements: SourceElement[] = [];

  constructor() {
    this.#tokenizer.onToken = ({ token, offset }) => this.#handle(token, offset);
  }

  *push(text: string): Generator<SourceElement> {
    const bytes = Buffer.from(text);
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
    const failure = this.#tokenize(bytes);
    // Yields the elements before a failure first, because one of them may be wrong too.
    yield* this.#elements.splice(0);
    if (this.#isClosed) this.#refuseText();
    if (failure !== undefined) throw failure;
    if (this.#bytes.length > MAX_ELEMENT_CHARACTERS) {
      throw this.#error(`longer than ${MAX_ELEMENT_CHARACTERS} characters`);
    }
  }

  end(): Iterable<SourceElement> {
    if (this.#isClosed) return [];
    if (isBlank(this.#bytes.toString())) throw this.#error("the file ends before the array does");
    throw this.#error("the file ends within it");
  }

  #tokenize(bytes: Uint8Array): Error | undefined {
    try {
      this.#tokenizer.write(bytes);
      return undefined;
    } catch (error) {
      if (error instanceof ElementError) return error;
      return this.#error(`not valid JSON: ${(error as Error).message}`);
    }
  }

  #handle(token: TokenType, offset: number): void {
    if (this.#isClosed) return;
    if (token === TokenType.LEFT_BRACKET || token === TokenType.LEFT_BRACE) {
      this.#depth += 1;
      if (this.#depth === 1) this.#take(offset);
    } else if (this.#depth > 1) {
      if (token === TokenType.RIGHT_BRACKET || token === TokenType.RIGHT_BRACE) this.#depth -= 1;
    } else if (token === TokenType.COMMA || token === TokenType.RIGHT_BRACKET) {
      this.#complete(this.#take(offset), token === TokenType.RIGHT_BRACKET);
    }
  }

  #complete(text: string, isLast: boolean): void {
    this.#isClosed = isLast;
    if (isLast && this.#number === 1 && isBlank(text)) return;
    if (isBlank(text)) throw this.#error("expected an order");
    this.#elements.push({ kind: "element", number: this.#number, text });
    this.#number += 1;
  }

  /** Removes the text up to a bracket or comma, and returns the text before the bracket or comma. */
  #take(offset: number): string {
    const end = offset - this.#start;
    const text = this.#bytes.toString("utf8", 0, end);
    this.#bytes = this.#bytes.subarray(end + 1);
    this.#start = offset + 1;
    return text;
  }

  #refuseText(): void {
    if (!isBlank(this.#bytes.toString())) {
      throw new Error("there is text after the end of the array");
    }
    this.#bytes = Buffer.alloc(0);
  }

  #error(fault: string): ElementError {
    return new ElementError({ kind: "element", number: this.#number }, fault);
  }
}
