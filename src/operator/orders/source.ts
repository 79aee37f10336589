import { createReadStream, fstatSync, statSync } from "node:fs";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { LosslessNumber, parse, stringify } from "lossless-json";
import { CANONICAL_DECIMAL } from "../../rules/int64.ts";
import { type OrderRecord, orderRecordSchema } from "../../rules/order.ts";

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

  constructor({ kind, number }: Omit<SourceElement, "text">, fault: string, cause?: unknown) {
    super(`${kind} ${number}: ${fault}`, { cause });
  }
}

/** Limits a line or array element, because a file with a single line could fill the memory. */
const MAX_CHARACTERS = 65_536;

/** Matches a character that is not JSON white space (RFC 8259, section 2). */
const VISIBLE = /[^ \t\r\n]/;
const LINE_END = /\n/g;
/** Matches a JSON bracket, brace, comma or string. The last string may lack its closing quote. */
const PUNCTUATION = /"(?:[^"\\]+|\\[^])*(?:"|\\?$)|[[\]{},]/g;

/**
 * Yields the bytes of a file, or of standard input for `-`, and of gzip the decompressed ones.
 *
 * @throws an Error if it is a folder, or if standard input is closed: Node then reads /dev/null.
 */
export function readSource(file: string): AsyncIterable<Uint8Array> {
  if (file !== "-") {
    if (statSync(file).isDirectory()) throw new Error(`${file} is a folder: name a file`);
    return gunzip(createReadStream(file));
  }
  const input: NodeJS.ReadStream & { readonly fd?: number } = process.stdin;
  const found = input.fd === undefined || input.isTTY ? undefined : fstatSync(input.fd);
  if (found?.isDirectory() || found?.isCharacterDevice()) {
    throw new Error("standard input is closed, or a folder: pass the orders, or name a file");
  }
  return gunzip(input);
}

/** Decompresses bytes that begin like gzip (RFC 1952), and yields other bytes unchanged. */
async function* gunzip(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const parts = bytes[Symbol.asyncIterator]();
  const first = await parts.next();
  async function* all() {
    if (!first.done) yield first.value;
    yield* { [Symbol.asyncIterator]: () => parts };
  }
  // No text begins with this byte, and the second one may come later.
  if (first.value?.[0] !== 0x1f) return yield* all();
  try {
    // The callback ignores its error, because reading the stream throws the same error.
    yield* pipeline(all, createGunzip(), () => {});
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code?.startsWith("Z_") !== true) throw error;
    throw new Error(`the file is not whole gzip: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Divides a file into lines or array elements, which may be invalid JSON. A file is a JSON array if
 * its first character other than white space is `[`, else newline-delimited JSON. Skips blank lines
 * and a byte order mark.
 *
 * @throws {ElementError} for a bad element, and for an array that does not end or is not all.
 */
export async function* readElements(bytes: AsyncIterable<Uint8Array>) {
  const decoder = new TextDecoder();
  let kind: SourceElement["kind"] | undefined;
  let number = 1;
  /** The text after the last complete element. */
  let rest = "";
  let isClosed = false;
  const bad = (fault: string) => new ElementError({ kind: kind ?? "line", number }, fault);
  const checkLength = ({ length }: string) => {
    if (length > MAX_CHARACTERS) throw bad(`longer than ${MAX_CHARACTERS} characters`);
  };
  function* element(text: string): Generator<SourceElement> {
    checkLength(text);
    // The decoder writes U+FFFD for bytes that are not UTF-8. No order contains this character.
    if (text.includes("\ufffd")) throw bad("not valid UTF-8, or contains U+FFFD");
    const isBlank = !VISIBLE.test(text);
    const isEmpty = kind !== "element" || (isClosed && number === 1);
    if (isBlank && !isEmpty) throw bad("expected an order");
    if (!isBlank) yield { kind: kind ?? "line", number, text };
    if (!isBlank || kind === "line") number += 1;
  }

  for await (const part of bytes) {
    rest += decoder.decode(part, { stream: true });
    if (kind === undefined) {
      const first = rest.search(VISIBLE);
      if (first !== -1) kind = rest[first] === "[" ? "element" : "line";
      if (kind === "element") rest = rest.slice(first + 1);
    }
    let start = 0;
    let depth = 0;
    const ends = kind === "line" ? LINE_END : PUNCTUATION;
    for (const { 0: token, index } of isClosed ? [] : rest.matchAll(ends)) {
      if (token === "[" || token === "{") depth += 1;
      else if (depth > 0) depth -= token === "]" || token === "}" ? 1 : 0;
      else if (token === "\n" || token === "," || token === "]") {
        isClosed = token === "]";
        yield* element(rest.slice(start, index));
        start = index + 1;
        if (isClosed) break;
      }
    }
    rest = rest.slice(start);
    if (isClosed && VISIBLE.test(rest)) throw bad("text after the end of the array");
    if (isClosed) rest = "";
    checkLength(rest);
  }
  rest += decoder.decode();
  if (kind !== "element") yield* element(rest);
  else if (!isClosed) throw bad("the file ends before the array does");
}

/**
 * Parses an order from JSON with exact integers (docs/api.md, section Orders). Refuses the integers
 * `1.0`, `1e3` and `-0`, and a field that occurs twice with different values.
 *
 * @throws {ElementError} if the order is not valid. The message names the field.
 */
export function parseOrder(element: SourceElement): OrderRecord {
  const value = parseJson(element);
  const { data, error } = orderRecordSchema.safeParse(value);
  if (data !== undefined) return data;
  const bad = (fault: string) => new ElementError(element, fault);
  const [issue] = error.issues;
  const field = issue?.path[0];
  if (issue?.code === "unrecognized_keys") {
    const known = Object.keys(orderRecordSchema.shape).join(", ");
    throw bad(`unknown field ${JSON.stringify(issue.keys[0])}, an order has ${known}`);
  }
  if (field === undefined) throw bad("expected an order, which is a JSON object");
  const found = stringify((value as Record<PropertyKey, unknown>)[field]);
  if (found === undefined) throw bad(`${String(field)}: missing, ${issue?.message}`);
  const shown = found.length <= 60 ? found : `${found.slice(0, 57)}...`;
  throw bad(`${String(field)}: ${issue?.message}, got ${shown}`);
}

function parseJson(element: SourceElement): unknown {
  try {
    return parse(element.text, null, (digits) =>
      CANONICAL_DECIMAL.test(digits) ? BigInt(digits) : new LosslessNumber(digits),
    );
  } catch (cause) {
    // A RangeError, if the recursive parser has overflowed the stack.
    throw new ElementError(element, `not valid JSON: ${(cause as Error).message}`, cause);
  }
}
