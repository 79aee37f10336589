import { createReadStream, fstatSync, statSync } from "node:fs";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { LosslessNumber, parse, stringify } from "lossless-json";
import { CANONICAL_DECIMAL } from "../../rules/int64.ts";
import {
  type CancelledRecord,
  cancelledRecordSchema,
  type OrderRecord,
  orderRecordSchema,
} from "../../rules/order.ts";
import { parseFile } from "../arguments.ts";
import { quote, typedLine } from "../command-line.ts";
import { recognizeOther, RECOGNIZED_BYTES } from "./file-format.ts";

/** One order in the file of an import, not yet parsed. */
export interface SourceElement {
  readonly kind: "line" | "element";
  /** The number of the line or array element in the file, from 1. */
  readonly number: number;
  readonly text: string;
  /** What is wrong with the text, if that is known before it is parsed. */
  readonly fault?: string | undefined;
}

/** Thrown if lines or array elements of an import are wrong. The message names their numbers. */
export class BadOrdersError extends Error {}

/** Thrown if one is wrong. */
export class ElementError extends BadOrdersError {
  override readonly name = "ElementError";

  constructor({ kind, number }: Omit<SourceElement, "text">, fault: string, cause?: unknown) {
    super(`${kind} ${number}: ${fault}`, { cause });
  }
}

/** Collects what is wrong with a file, so that one run shows more than the first fault. */
export class Faults {
  readonly #listed: ElementError[];
  #count: number;

  constructor(listed: ElementError[] = [], count = 0) {
    this.#listed = listed;
    this.#count = count;
  }

  /** @throws every other error. */
  add(error: unknown): void {
    if (!(error instanceof ElementError)) throw error;
    if (this.#count++ < LISTED) this.#listed.push(error);
  }

  /** @throws {BadOrdersError} that lists the first ones, and counts all. */
  throwIfAny(): void {
    const [first] = this.#listed;
    if (first === undefined) return;
    if (this.#count === 1) throw first;
    const which = this.#count > LISTED ? `. The first ${LISTED}` : "";
    const lines = this.#listed.map(({ message }) => `\n  ${message}`).join("");
    const bad = `${this.#count} orders are bad: nothing was imported${which}:${lines}`;
    throw new BadOrdersError(bad);
  }
}

/** Limits a line or array element, because a file with a single line could fill the memory. */
const MAX_CHARACTERS = 65_536;
const TOO_LONG = `longer than ${MAX_CHARACTERS} characters`;
const LISTED = 10;

/** Matches a character that is not JSON white space (RFC 8259, section 2). */
const VISIBLE = /[^ \t\r\n]/g;
/** Matches a line with one object and no nested one, which is what most lines are. */
const PLAIN_LINE = /\{[^{}\n]*\}[ \t\r]*(?=\n)/y;
/** Matches a JSON bracket, brace, comma or string, and the end of a line before another object. */
const PUNCTUATION = /"(?:[^"\\\n]+|\\.)*(?:"|\\?$)?|[[\]{},]|\n(?=\{)/g;

/**
 * Yields the bytes of a file, or of standard input for `-`, and of gzip the decompressed ones.
 *
 * @throws an Error if it is a folder or of another format, or if standard input is closed: Node then
 *   reads /dev/null.
 */
export async function* readSource(file: string): AsyncGenerator<Uint8Array> {
  const source = file === "-" ? openInput() : openFile(file);
  try {
    let [beginning, bytes] = await peek(source);
    if (beginning[0] === 0x1f) {
      // The callback ignores its error, because reading the stream throws the same error.
      [beginning, bytes] = await peek(pipeline(bytes, createGunzip(), () => {}));
    }
    refuseOthers(beginning, file);
    yield* bytes;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code?.startsWith("Z_") !== true) throw error;
    throw new Error(`the file is not whole gzip: ${(error as Error).message}`, { cause: error });
  } finally {
    source.destroy();
  }
}

function openFile(file: string): Readable {
  if (statSync(file).isDirectory()) throw new Error(`${file} is a folder: name a file`);
  return createReadStream(file);
}

function openInput(): Readable {
  const input: NodeJS.ReadStream & { readonly fd?: number } = process.stdin;
  const found = input.fd === undefined || input.isTTY ? undefined : fstatSync(input.fd);
  if (!found?.isDirectory() && !found?.isCharacterDevice()) return input;
  throw new Error("standard input is closed, or a folder: pass the orders, or name a file");
}

/** Returns the first bytes, enough to recognize a format, and all bytes. */
async function peek(bytes: AsyncIterable<Uint8Array>) {
  const parts = bytes[Symbol.asyncIterator]();
  let beginning: Uint8Array = new Uint8Array();
  while (beginning.length < RECOGNIZED_BYTES) {
    const next = await parts.next();
    if (next.done) break;
    beginning = Buffer.concat([beginning, next.value]);
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    yield beginning;
    yield* { [Symbol.asyncIterator]: () => parts };
  }
  return [beginning, all()] as const;
}

/** @throws an Error that names the format of a file that is not JSON, and the line that converts it. */
function refuseOthers(beginning: Uint8Array, file: string): void {
  const [script, ...words] = typedLine();
  const typed = file === "-" ? "" : (words.find((word) => parseFile(word) === file) ?? "");
  const other = recognizeOther(beginning, typed);
  if (other === undefined) return;
  const { name, command = "" } = other;
  const converted = `${typed}.ndjson`;
  const line = [script, ...words.map((word) => quote(word === typed ? converted : word))];
  const again = `${command} > ${quote(converted)} &&\n  ${line.join(" ")}`;
  const advice = command && `. Convert it:\n  ${typed === "" ? command : again}`;
  const what = file === "-" ? "standard input" : file;
  throw new Error(`${what} is ${name}, but an import reads orders in JSON${advice}`);
}

/**
 * Divides a file into orders, which may be invalid JSON. A file is a JSON array if its first character
 * other than white space is `[`. Otherwise one object follows another, with or without line ends in and
 * between them, and anything else up to the end of its line. Skips a byte order mark.
 *
 * @throws {ElementError} where the rest of the file cannot be divided: an element without an end, an
 *   array that does not end or is not all.
 */
export async function* readElements(bytes: AsyncIterable<Uint8Array>) {
  const decoder = new TextDecoder();
  let kind: SourceElement["kind"] | undefined;
  /** The number of the element, or of the line at the start of `rest`. */
  let number = 1;
  /** The text after the last complete element. */
  let rest = "";
  let isClosed = false;
  const bad = (fault: string) => new ElementError({ kind: kind ?? "line", number }, fault);
  const element = (text: string): SourceElement => {
    const isLong = text.length > MAX_CHARACTERS && TOO_LONG;
    // The decoder writes U+FFFD for bytes that are not UTF-8. No order contains this character.
    const isBroken = text.includes("\ufffd") && "not valid UTF-8, or contains U+FFFD";
    return { kind: kind ?? "line", number, text, fault: isLong || isBroken || undefined };
  };

  function* objects(isEnd: boolean): Generator<SourceElement> {
    for (let start = 0; ;) {
      VISIBLE.lastIndex = start;
      const next = VISIBLE.exec(rest)?.index ?? rest.length;
      number += countLines(rest, start, next);
      start = next;
      const end = start === rest.length ? -1 : endOfObject(rest, start);
      if (end === -1 && (!isEnd || start === rest.length)) {
        rest = rest.slice(start);
        return;
      }
      const text = rest.slice(start, end === -1 ? rest.length : end);
      yield element(text);
      number += countLines(text, 0, text.length);
      start += text.length;
    }
  }

  function* elements(isEnd: boolean): Generator<SourceElement> {
    let start = 0;
    let depth = 0;
    PUNCTUATION.lastIndex = 0;
    for (const { 0: token, index } of isClosed ? [] : rest.matchAll(PUNCTUATION)) {
      if (token === "[" || token === "{") depth += 1;
      else if (depth > 0) depth -= token === "]" || token === "}" ? 1 : 0;
      else if (token === "," || token === "]") {
        isClosed = token === "]";
        const text = rest.slice(start, index);
        const isBlank = text.search(VISIBLE) === -1;
        if (!isBlank) yield element(text);
        else if (!isClosed || number > 1) yield { ...element(text), fault: "expected an order" };
        if (!isBlank || !isClosed) number += 1;
        start = index + 1;
        if (isClosed) break;
      }
    }
    rest = rest.slice(start);
    if (isClosed && rest.search(VISIBLE) !== -1) throw bad("text after the end of the array");
    if (isClosed) rest = "";
    else if (isEnd) throw bad("the file ends before the array does");
  }

  const divide = (isEnd: boolean) => (kind === "element" ? elements(isEnd) : objects(isEnd));
  for await (const part of bytes) {
    rest += decoder.decode(part, { stream: true });
    if (kind === undefined) {
      const first = rest.search(VISIBLE);
      if (first !== -1) kind = rest[first] === "[" ? "element" : "line";
      if (kind === "element") rest = rest.slice(first + 1);
    }
    if (kind !== undefined) yield* divide(false);
    if (rest.length > MAX_CHARACTERS) throw bad(TOO_LONG);
  }
  rest += decoder.decode();
  yield* divide(true);
}

/** Returns the index after the object, or after the line of anything else; -1 if `text` lacks it. */
function endOfObject(text: string, start: number): number {
  if (text[start] !== "{") return text.indexOf("\n", start);
  PLAIN_LINE.lastIndex = start;
  if (PLAIN_LINE.test(text)) return PLAIN_LINE.lastIndex;
  let depth = 0;
  PUNCTUATION.lastIndex = start;
  for (const { 0: token, index } of text.matchAll(PUNCTUATION)) {
    // An object that begins a line is another one: of this one, the end is missing.
    if (token === "\n") return index;
    if (token === "[" || token === "{") depth += 1;
    else if (token === "]" || token === "}") depth -= 1;
    if (depth === 0) return index + token.length;
  }
  return -1;
}

function countLines(text: string, start: number, end: number): number {
  let count = 0;
  for (let at = text.indexOf("\n", start); at !== -1 && at < end; at = text.indexOf("\n", at + 1)) {
    count += 1;
  }
  return count;
}

/**
 * Parses an order from JSON with exact integers (docs/api.md, section Orders). Refuses the integers
 * `1.0`, `1e3` and `-0`, and a field that occurs twice with different values.
 *
 * @throws {ElementError} if the order is not valid. The message names the field.
 */
export function parseOrder(element: SourceElement): OrderRecord | CancelledRecord {
  const bad = (fault: string) => new ElementError(element, fault);
  const shorten = (text: string) => (text.length <= 60 ? text : `${text.slice(0, 57)}...`);
  if (element.fault !== undefined) throw bad(element.fault);
  if (!/^\s*\{/.test(element.text)) {
    throw bad(`expected an order, which is a JSON object, got ${shorten(element.text.trim())}`);
  }
  const value = parseJson(element);
  const isCancelled = Object(value)["status"] === "cancelled";
  const schema = isCancelled ? cancelledRecordSchema : orderRecordSchema;
  const { data, error } = schema.safeParse(value);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  const field = String(issue?.path[0]);
  if (issue?.code === "unrecognized_keys") {
    const known = Object.keys(schema.shape).join(", ");
    throw bad(`unknown field ${JSON.stringify(issue.keys[0])}, an order has ${known}`);
  }
  const found = stringify((value as Record<string, unknown>)[field]);
  if (found === undefined) throw bad(`${field}: missing, ${issue?.message}`);
  if (found === "null") throw bad(`${field}: null is no value, leave the field out`);
  throw bad(`${field}: ${issue?.message}, got ${shorten(found)}`);
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
