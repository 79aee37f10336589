import { createReadStream, fstatSync } from "node:fs";
import { stat } from "node:fs/promises";
import { addAbortSignal, pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { isLosslessNumber, LosslessNumber, parse } from "lossless-json";
import type { z } from "zod";
import { CANONICAL_DECIMAL } from "../../rules/int64.ts";
import { type OrderRecord, orderRecordSchema } from "../../rules/order.ts";
import { countBytes } from "./progress.ts";

/** One order in the file of an import, not yet parsed. */
export interface SourceElement {
  readonly kind: "line" | "element";
  /** The number of the line or array element in the file, from 1. */
  readonly number: number;
  readonly text: string;
}

/** Thrown if a line or an array element of an import is wrong. The message names its number. */
export class ElementError extends Error {
  override readonly name = "ElementError";

  constructor({ kind, number }: Pick<SourceElement, "kind" | "number">, fault: string) {
    super(`${kind} ${number}: ${fault}`);
  }
}

/** Limits a line or array element, because a file with a single line could fill the memory. */
const MAX_ELEMENT_CHARACTERS = 65_536;

/** Matches a character that is not JSON white space (RFC 8259, section 2). */
const VISIBLE = /[^ \t\r\n]/;
const LINE_END = /\n/g;
/** Matches a JSON bracket, brace, comma or string. The last string may lack its closing quote. */
const PUNCTUATION = /"(?:[^"\\]+|\\[^])*(?:"|\\?$)|[[\]{},]/g;

/**
 * Returns the bytes of a file, or of standard input for `-`. Decompresses gzip, whatever its name.
 *
 * @throws an Error if the file, or standard input, is a folder.
 */
export async function openSource(
  file: string,
  signal: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  if (file === "-") return gunzip(countBytes(readInput(signal), undefined));
  const found = await stat(file);
  if (found.isDirectory()) throw new Error(`${file} is a folder: name a file`);
  return gunzip(countBytes(readFile(file, signal), found.isFile() ? found.size : undefined));
}

/** @throws an Error if standard input is a folder, or is closed: Node then reads /dev/null. */
async function* readInput(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const input: NodeJS.ReadStream & { readonly fd?: number } = addAbortSignal(signal, process.stdin);
  const found = input.fd === undefined ? undefined : fstatSync(input.fd);
  if (found?.isDirectory()) throw new Error("standard input is a folder: name a file");
  let isEmpty = true;
  for await (const part of input) {
    isEmpty = false;
    yield part as Uint8Array;
  }
  if (isEmpty && found?.isCharacterDevice() && !input.isTTY) {
    throw new Error("standard input is closed or empty: pass the orders, or name a file");
  }
}

/** Opens a file only at the first read, because the caller could not catch an earlier error. */
async function* readFile(file: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  yield* createReadStream(file, { signal });
}

/** Decompresses bytes that begin like gzip (RFC 1952), and yields other bytes unchanged. */
async function* gunzip(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const parts = bytes[Symbol.asyncIterator]();
  let start = Buffer.alloc(0);
  while (start.length < 2) {
    const { done, value } = await parts.next();
    if (done) break;
    start = Buffer.concat([start, value]);
  }
  async function* all() {
    yield start;
    yield* { [Symbol.asyncIterator]: () => parts };
  }
  if (start[0] !== 0x1f || start[1] !== 0x8b) return yield* all();
  try {
    // The callback ignores its error, because reading the stream throws the same error.
    yield* pipeline(all, createGunzip(), () => {});
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code?.startsWith("Z_") !== true) throw error;
    throw new Error(`the file is not whole gzip: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Yields the lines or array elements that each chunk completes. A file is a JSON array if its first
 * character other than white space is `[`, else newline-delimited JSON. Skips a byte order mark.
 *
 * @throws {ElementError} for a bad element, and an Error for text after the array.
 */
export async function* readElements(
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<Iterable<SourceElement>> {
  const decoder = new TextDecoder();
  const splitter = new Splitter();
  for await (const part of bytes) yield splitter.push(decoder.decode(part, { stream: true }));
  yield splitter.push(decoder.decode());
  yield splitter.end();
}

/** Splits chunks of text into lines or array elements. These may be invalid JSON. */
class Splitter {
  #kind: SourceElement["kind"] | undefined;
  /** The number of the current line or array element. Blank lines are counted too. */
  #number = 1;
  /** The text after the last complete element. */
  #rest = "";
  /** True after the closing bracket of an array. */
  #isClosed = false;

  *push(text: string): Generator<SourceElement> {
    this.#rest += text;
    if (this.#kind === undefined) {
      const first = this.#rest.search(VISIBLE);
      if (first !== -1) this.#kind = this.#rest[first] === "[" ? "element" : "line";
      if (this.#kind === "element") {
        this.#rest = this.#rest.slice(first + 1);
        this.#number = 1;
      }
    }
    let start = 0;
    let depth = 0;
    const ends = this.#kind === "element" ? PUNCTUATION : LINE_END;
    for (const { 0: token, index } of this.#rest.matchAll(ends)) {
      if (this.#isClosed) break;
      if (token === "[" || token === "{") depth += 1;
      else if (depth > 0) depth -= token === "]" || token === "}" ? 1 : 0;
      else if (token === "\n" || token === "," || token === "]") {
        this.#isClosed = token === "]";
        yield* this.#element(this.#rest.slice(start, index));
        this.#number += 1;
        start = index + 1;
      }
    }
    this.#rest = this.#rest.slice(start);
    if (this.#isClosed) {
      if (VISIBLE.test(this.#rest)) throw new Error("there is text after the end of the array");
      this.#rest = "";
    }
    this.#checkLength(this.#rest);
  }

  *end(): Generator<SourceElement> {
    if (this.#kind !== "element") yield* this.#element(this.#rest);
    else if (!this.#isClosed) throw this.#error("the file ends before the array does");
  }

  *#element(text: string): Generator<SourceElement> {
    this.#checkLength(text);
    // The decoder writes U+FFFD for bytes that are not UTF-8. No order contains this character.
    if (text.includes("\ufffd")) throw this.#error("not valid UTF-8, or contains U+FFFD");
    const kind = this.#kind ?? "line";
    if (VISIBLE.test(text)) yield { kind, number: this.#number, text };
    // An empty array has no element before its closing bracket.
    else if (kind === "element" && !(this.#isClosed && this.#number === 1)) {
      throw this.#error("expected an order");
    }
  }

  #checkLength(text: string): void {
    if (text.length <= MAX_ELEMENT_CHARACTERS) return;
    throw this.#error(`longer than ${MAX_ELEMENT_CHARACTERS} characters`);
  }

  #error(fault: string): ElementError {
    return new ElementError({ kind: this.#kind ?? "line", number: this.#number }, fault);
  }
}

/**
 * Parses an order from JSON with exact integers (docs/api.md, section Orders). Refuses the integers
 * `1.0`, `1e3` and `-0`, and a field that occurs twice with different values.
 *
 * @throws an Error if the order is not valid. The message names the field.
 */
export function parseOrder(text: string): OrderRecord {
  const value = parseJson(text);
  const parsed = orderRecordSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(describeIssue(value, parsed.error.issues[0]));
}

function parseJson(text: string): unknown {
  try {
    return parse(text, null, (digits) =>
      CANONICAL_DECIMAL.test(digits) ? BigInt(digits) : new LosslessNumber(digits),
    );
  } catch (error) {
    // Any other error is a RangeError, because the recursive parser has overflowed the stack.
    const fault =
      error instanceof SyntaxError ? `not valid JSON: ${error.message}` : "nested too deeply";
    throw new Error(fault, { cause: error });
  }
}

function describeIssue(value: unknown, issue: z.core.$ZodIssue | undefined): string {
  if (issue === undefined) return "not an order";
  const [field] = issue.path;
  if (typeof field !== "string") {
    if (issue.code === "unrecognized_keys") return `unknown field ${JSON.stringify(issue.keys[0])}`;
    return "expected an order, which is a JSON object";
  }
  const fieldValue = (value as Record<string, unknown>)[field];
  if (fieldValue === undefined) return `${field}: missing, ${issue.message}`;
  return `${field}: ${issue.message}, got ${format(fieldValue)}`;
}

function format(value: unknown): string {
  if (typeof value === "bigint") return value.toString();
  if (isLosslessNumber(value)) return shorten(value.toString());
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  return shorten(JSON.stringify(value));
}

function shorten(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`;
}
