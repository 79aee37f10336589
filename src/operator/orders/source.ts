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
import { RECOGNIZED_BYTES, refuseOthers } from "./file-format.ts";

/** An order of an import, listed or cancelled. */
export type ImportedOrder = OrderRecord | CancelledRecord;

/** One order in the file of an import, not yet parsed. */
export interface SourceElement {
  readonly kind: "line" | "element";
  /** The number of the line or array element in the file, from 1. */
  readonly number: number;
  readonly text: string;
  /** What is wrong with the text, if that is known before it is parsed. */
  readonly fault?: string | undefined;
}

/** How many bad orders a message lists. */
export const LISTED = 10;

/** Thrown if orders of an import are wrong. */
export class BadOrdersError extends Error {
  /** @param faults the first ones of `count`, which name the lines or array elements. */
  constructor(faults: readonly string[], count = faults.length) {
    const which = count > LISTED ? `. The first ${LISTED}` : "";
    const title = `${count} orders are bad: nothing was imported${which}:`;
    super(count === 1 ? faults[0] : [title, ...faults].join("\n  "));
  }
}

/** Limits a line or array element, because a file with a single line could fill the memory. */
const MAX_CHARACTERS = 65_536;
const TOO_LONG = `longer than ${MAX_CHARACTERS} characters`;

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
  const source = openSource(file);
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

function openSource(file: string): Readable {
  if (file !== "-") {
    if (statSync(file).isDirectory()) throw new Error(`${file} is a folder: name a file`);
    return createReadStream(file);
  }
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

/**
 * Divides a file into orders, which may be invalid JSON. A file is a JSON array if its first character
 * other than white space is `[`. Otherwise one object follows another, with or without line ends in and
 * between them, and anything else up to the end of its line. Skips a byte order mark. Ends with a fault
 * where the rest cannot be divided: an element without an end, an array that does not end or is not all.
 */
export async function* readElements(bytes: AsyncIterable<Uint8Array>) {
  const decoder = new TextDecoder();
  let kind: SourceElement["kind"] | undefined;
  /** The number of the element, or of the line at the start of `rest`. */
  let number = 1;
  /** The text after the last complete element. */
  let rest = "";
  let isClosed = false;
  const element = (text: string, fault?: string): SourceElement => {
    const isLong = text.length > MAX_CHARACTERS && TOO_LONG;
    // The decoder writes U+FFFD for bytes that are not UTF-8. No order contains this character.
    const isBroken = text.includes("\ufffd") && "not valid UTF-8, or contains U+FFFD";
    return {
      kind: kind ?? "line",
      number,
      text,
      fault: fault ?? (isLong || isBroken || undefined),
    };
  };

  /** Yields the elements that end in `rest`. Returns why the rest cannot be divided. */
  function* divide(isEnd: boolean): Generator<SourceElement, string | undefined> {
    for (let start = 0; ;) {
      VISIBLE.lastIndex = start;
      const first = VISIBLE.exec(rest)?.index ?? rest.length;
      if (kind === undefined && rest[first] === "[") {
        [kind, number, start] = ["element", 1, first + 1];
        continue;
      }
      const isBlank = first === rest.length;
      if (isClosed && !isBlank) return "text after the end of the array";
      if (kind !== "element") number += countLines(rest.slice(start, first));
      if (!isBlank) kind ??= "line";
      const end = endOf(kind ?? "line", rest, first);
      if (end === -1 && (isBlank || !isEnd || kind === "element")) {
        rest = rest.slice(first);
        const isCut = isEnd && kind === "element" && !isClosed;
        return isCut ? "the file ends before the array does" : undefined;
      }
      const text = rest.slice(first, end === -1 ? rest.length : end);
      start = first + text.length;
      if (kind === "line") {
        yield element(text);
        number += countLines(text);
        continue;
      }
      isClosed = rest[start++] === "]";
      if (isClosed && number === 1 && text === "") continue;
      yield element(text, text === "" ? "expected an order" : undefined);
      number += 1;
    }
  }

  for await (const part of bytes) {
    rest += decoder.decode(part, { stream: true });
    const fault = (yield* divide(false)) ?? (rest.length > MAX_CHARACTERS ? TOO_LONG : undefined);
    if (fault === undefined) continue;
    yield element("", fault);
    return;
  }
  rest += decoder.decode();
  const fault = yield* divide(true);
  if (fault !== undefined) yield element("", fault);
}

const countLines = (text: string) => text.split("\n").length - 1;

/** Returns where an array's element, an object, or the line of anything else ends; -1 if not here. */
function endOf(kind: SourceElement["kind"], text: string, start: number): number {
  const isLine = kind === "line";
  if (isLine && text[start] !== "{") return text.indexOf("\n", start);
  PLAIN_LINE.lastIndex = start;
  if (isLine && PLAIN_LINE.test(text)) return PLAIN_LINE.lastIndex;
  let depth = 0;
  PUNCTUATION.lastIndex = start;
  for (const { 0: token, index } of text.matchAll(PUNCTUATION)) {
    if (!isLine && depth === 0 && (token === "," || token === "]")) return index;
    // An object that begins a line is another one: of this one, the end is missing.
    if (isLine && token === "\n") return index;
    if (token === "[" || token === "{") depth += 1;
    else if (depth > 0 && (token === "]" || token === "}")) depth -= 1;
    if (isLine && depth === 0) return index + 1;
  }
  return -1;
}

/**
 * Parses an order from JSON with exact integers (docs/api.md, section Orders). Refuses the integers
 * `1.0`, `1e3` and `-0`, and a field that occurs twice with different values.
 *
 * @returns what is wrong with an order that is not valid, with the name of the field.
 */
export function parseOrder({
  text,
  fault,
}: Pick<SourceElement, "text" | "fault">): ImportedOrder | string {
  if (fault !== undefined) return fault;
  const shorten = (long: string) => (long.length <= 60 ? long : `${long.slice(0, 57)}...`);
  if (!/^\s*\{/.test(text)) {
    return `expected an order, which is a JSON object, got ${shorten(text.trim())}`;
  }
  let value: Record<string, unknown>;
  try {
    value = parse(text, null, (digits) =>
      CANONICAL_DECIMAL.test(digits) ? BigInt(digits) : new LosslessNumber(digits),
    ) as typeof value;
  } catch (cause) {
    // A RangeError, if the recursive parser has overflowed the stack.
    return `not valid JSON: ${(cause as Error).message}`;
  }
  const schema = value["status"] === "cancelled" ? cancelledRecordSchema : orderRecordSchema;
  const { data, error } = schema.safeParse(value);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  const field = String(issue?.path[0]);
  if (issue?.code === "unrecognized_keys") {
    const known = Object.keys(schema.shape).join(", ");
    return `unknown field ${JSON.stringify(issue.keys[0])}, an order has ${known}`;
  }
  const found = stringify(value[field]);
  if (found === undefined) return `${field}: missing, ${issue?.message}`;
  if (found === "null") return `${field}: null is no value, leave the field out`;
  return `${field}: ${issue?.message}, got ${shorten(found)}`;
}
