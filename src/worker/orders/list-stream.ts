import type { Segment, SegmentTexts } from "./list-database.ts";
import { PIECES, PIECES_OF_VALUES, SEPARATOR, sliceEnd } from "./shorthand/letters.ts";

/** Limits on the memory and queries for the lists that an isolate sends. Tests use smaller values. */
export const LIST_SIZES = {
  /** How many snapshot queries may run at the same time. Further requests share the next. */
  concurrency: 2,
  /** How many segments may be read with the manifest. If memory lacks more, only one is read. */
  missingWithManifest: 16,
  /** How many segments a query that reads ahead may have. */
  groupSegments: 4,
  /** How many groups a list may read ahead: Cloudflare allows a request six connections. */
  groupsAhead: 6,
  /** How many queries a list may need if it reads nothing ahead: D1 allows a request 1,000. */
  maxQueries: 900,
  /** How many segments a list may have: `maxQueries` groups. */
  maxSegments: 3_600,
  /** The bytes of shorthand of a list that is sent in one piece and needs no place. */
  shortBytes: 256 * 1_024,
  /** The bytes of shorthand in a piece of a longer list. */
  pieceBytes: 256 * 1_024,
  /** The memory of a piece: its JSON is as long as the shorthand of this many of the longest orders. */
  pieceOrders: 6_144,
  /** How many orders all lists under way may hold: 40 MB if all of them are as long as possible. */
  heldOrders: 440_000,
  /** A list whose client has taken nothing for this long gives its place to a list without one. */
  stallMs: 60_000,
  /** How often a list renews its lease, for which housekeeping keeps former states: for a day. */
  leaseMs: 6 * 3_600_000,
};

export type ListSizes = Readonly<typeof LIST_SIZES>;

/** A list that is sent to a client, as `ListPlaces` counts it. */
interface CountedList {
  readonly keyId: string;
  /** The orders that the list needs at any time, and those that it has read ahead. */
  readonly own: number;
  readonly ahead: number;
  /** When the client last took a piece of the list. */
  movedMs: number;
  /** Forgets the orders that were read ahead, and from now on reads nothing ahead. */
  forgetAhead(): void;
  /** Ends the list, because another one needs its place. */
  cutOff(): void;
}

/**
 * Limits how many orders the lists under way in an isolate hold. An order has a longest form, so
 * this limits their memory.
 *
 * A key may hold at most as many orders as it leaves free (the "dynamic threshold" of shared
 * buffers). So one key can hold half of them, and a second key half of the rest: whatever one key
 * does, a list of another key finds room.
 */
export class ListPlaces {
  readonly #maxOrders: number;
  readonly #stallMs: number;
  readonly #lists = new Set<CountedList>();

  constructor({ heldOrders, stallMs }: Pick<ListSizes, "heldOrders" | "stallMs">) {
    this.#maxOrders = heldOrders;
    this.#stallMs = stallMs;
  }

  /** The orders that all lists hold. */
  get held(): number {
    return sumOf(this.#lists);
  }

  /**
   * Gives a list a place until `end`; returns false if there is no room. Lists whose clients have
   * taken nothing for `stallMs` make room: first with what they have read ahead, then the
   * longest-stalled one is cut off. A key that holds more than others displaces only its own lists.
   */
  take(list: CountedList): boolean {
    const hasRoom = this.#fits(list, list.own) || this.#makeRoom(list);
    if (hasRoom) this.#lists.add(list);
    return hasRoom;
  }

  /** Returns whether a list that has a place may read this many orders ahead. */
  allowsAhead(list: CountedList, orders: number): boolean {
    while (!this.#fits(list, orders)) if (!this.#forgetAhead(list)) return false;
    return this.#lists.has(list);
  }

  end(list: CountedList): void {
    this.#lists.delete(list);
  }

  #fits({ keyId }: CountedList, orders: number, lists: ReadonlySet<CountedList> = this.#lists) {
    return heldBy(keyId, lists) + orders <= this.#maxOrders - sumOf(lists) - orders;
  }

  /** The lists whose clients have taken nothing for long, the longest-stalled one first. */
  #stalled(): CountedList[] {
    const nowMs = Date.now();
    // A clock that was set back must not keep a list alive.
    for (const list of this.#lists) list.movedMs = Math.min(list.movedMs, nowMs);
    return [...this.#lists]
      .filter(({ movedMs }) => nowMs - movedMs >= this.#stallMs)
      .toSorted((one, other) => one.movedMs - other.movedMs);
  }

  #forgetAhead(except: CountedList): boolean {
    const list = this.#stalled().find((one) => one !== except && one.ahead > 0);
    list?.forgetAhead();
    return list !== undefined;
  }

  #makeRoom(list: CountedList): boolean {
    while (this.#forgetAhead(list)) if (this.#fits(list, list.own)) return true;
    const needed = heldBy(list.keyId, this.#lists) + list.own;
    const kept = new Set(this.#lists);
    for (const stalled of this.#stalled()) {
      if (stalled.keyId !== list.keyId && heldBy(stalled.keyId, this.#lists) < needed) continue;
      kept.delete(stalled);
      if (!this.#fits(list, list.own, kept)) continue;
      for (const one of [...this.#lists].filter((other) => !kept.has(other))) {
        this.#lists.delete(one);
        one.cutOff();
      }
      return true;
    }
    return false; // No list is cut off in vain.
  }
}

function heldBy(keyId: string, lists: ReadonlySet<CountedList>): number {
  return sumOf(lists.values().filter((list) => list.keyId === keyId));
}

function sumOf(lists: Iterable<CountedList>): number {
  let sum = 0;
  for (const { own, ahead } of lists) sum += own + ahead;
  return sum;
}

/** The error of a list that `ListPlaces` has cut off. */
export class StalledReaderError extends Error {}

/** A segment that was queried for a list and is not sent yet. */
interface HeldSegment {
  readonly text: Promise<string | undefined>;
  /** The orders that count as read ahead; 0 if the list's own place is enough. */
  readonly ahead: number;
}

interface ListSource {
  readonly keyId: string;
  readonly segments: readonly Segment[];
  /** Returns the orders of the segment of this version if they are in the isolate's memory. */
  readonly remembered: (version: string) => string | undefined;
  /** Runs one query. */
  readonly read: (segments: readonly Segment[]) => Promise<SegmentTexts>;
}

/**
 * One list on its way to a client. A segment comes from the isolate's memory, else from the
 * database. Several queries overlap, because each of them takes a round trip. A segment that was
 * queried is held until it is sent, so no segment is queried twice.
 */
export class ListUnderWay implements CountedList {
  readonly keyId: string;
  readonly own: number;
  movedMs = Date.now();
  readonly #source: ListSource;
  readonly #places: ListPlaces;
  readonly #expander: OrderExpander;
  readonly #sizes: ListSizes;
  /** How many segments one query may read that does not read ahead: a list has few enough queries. */
  readonly #ownSegments: number;
  readonly #held = new Map<string, HeldSegment>();
  #readsAhead = true;
  readonly #isNeeded = Promise.withResolvers<void>();

  constructor(source: ListSource, places: ListPlaces, expander: OrderExpander, sizes: ListSizes) {
    const { segments, keyId } = source;
    const largest = segments.reduce((most, { count }) => Math.max(most, count), 0);
    this.#ownSegments = Math.ceil(segments.length / sizes.maxQueries);
    this.own = this.#ownSegments * largest + sizes.pieceOrders;
    this.keyId = keyId;
    this.#source = source;
    this.#places = places;
    this.#expander = expander;
    this.#sizes = sizes;
  }

  get ahead(): number {
    return this.#held.values().reduce((sum, { ahead }) => sum + ahead, 0);
  }

  forgetAhead(): void {
    this.#readsAhead = false;
    this.#held.clear();
  }

  /** Another request may call this: the list then ends in its own request. */
  cutOff(): void {
    this.#isNeeded.resolve();
  }

  /**
   * Returns the list as a JSON array. Produces each piece only when the client reads it, so only one
   * piece of JSON is in memory. A list that is cut off lacks its bracket, so it is never valid JSON.
   *
   * @param texts the segments that were read with the manifest.
   * @param onEnd called once, at the end; without an error if all was sent or the client
   *   disconnected.
   */
  stream(texts: SegmentTexts, onEnd: (error?: unknown) => void): ReadableStream<Uint8Array> {
    // Not in the generator, which would keep the map with all these texts until it ends.
    this.#holdFirst(texts);
    const pieces = this.#pieces();
    let hasEnded = false;
    const end = (error?: unknown) => {
      hasEnded = true;
      this.#places.end(this);
      // A client that stays connected keeps the stream, but no orders that nobody counts any more.
      this.#held.clear();
      void pieces.return(new Uint8Array());
      onEnd(error);
    };
    const fail = (controller: ReadableStreamDefaultController<Uint8Array>, cause: unknown) => {
      if (hasEnded) return;
      // `retryable` makes workerd treat the error as a lost connection. workerd reports every other
      // error of a body as an uncaught exception, in addition to the list's own log event.
      const error = new Error("The list was cut off.", { cause });
      controller.error(Object.assign(error, { retryable: true }));
      end(cause);
    };
    const source: UnderlyingSource<Uint8Array> = {
      start: (controller: ReadableStreamDefaultController<Uint8Array>) => {
        void this.#isNeeded.promise.then(() => {
          fail(controller, new StalledReaderError("Another list needed its place."));
        });
      },
      pull: async (controller: ReadableStreamDefaultController<Uint8Array>) => {
        this.movedMs = Date.now();
        try {
          const { done, value } = await pieces.next();
          if (hasEnded) return;
          controller.enqueue(value);
          this.movedMs = Date.now();
          if (done !== true) return;
          controller.close();
          end();
        } catch (error) {
          fail(controller, error);
        }
      },
      cancel: () => {
        if (!hasEnded) end();
      },
    };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  /** Yields the JSON in pieces, and returns the last piece: the closing bracket. */
  async *#pieces(): AsyncGenerator<Uint8Array, Uint8Array> {
    let opening: "[" | "," = "[";
    for await (const text of this.#texts()) {
      for (let start = 0; start < text.length;) {
        const end = sliceEnd(text, start, this.#sizes.pieceBytes);
        yield this.#expander.expand(text.slice(start, end), { opening, closing: "" });
        opening = ",";
        start = end + 1;
      }
    }
    return new TextEncoder().encode(opening === "[" ? "[]" : "]");
  }

  /** Yields the orders of each segment in shorthand. */
  async *#texts(): AsyncGenerator<string, void> {
    const { groupSegments, groupsAhead } = this.#sizes;
    const { segments, remembered } = this.#source;
    /** No segment before this one is read ahead. */
    let next = 0;
    for (const [index, segment] of segments.entries()) {
      next = Math.max(next, index);
      // Reads ahead only after the first segment is sent, so that the response begins early.
      while (
        index > 0 &&
        this.#readsAhead &&
        this.#held.size <= (groupsAhead - 1) * groupSegments
      ) {
        const { group, end } = this.#missingFrom(next);
        if (group.length > 0 && !this.#places.allowsAhead(this, countOf(group))) break;
        next = end;
        if (group.length === 0) break;
        this.#query(group, true);
      }
      if (this.#isMissing(segment)) {
        const own = segments.slice(index, index + this.#ownSegments);
        this.#query(
          own.filter((one) => this.#isMissing(one)),
          false,
        );
      }
      const { version } = segment;
      const text = remembered(version) ?? (await this.#held.get(version)?.text);
      if (text === undefined) throw new Error("A segment of the list was not read.");
      yield text;
      this.#held.delete(version);
    }
  }

  #holdFirst(texts: SegmentTexts): void {
    const read = this.#source.segments.filter(({ version }) => texts.has(version));
    for (const [index, segment] of read.entries()) {
      // The place of the list has room for the first one.
      const ahead = index === 0 ? 0 : segment.count;
      if (ahead > 0 && !this.#places.allowsAhead(this, ahead)) return;
      this.#held.set(segment.version, { text: Promise.resolve(texts.get(segment.version)), ahead });
    }
  }

  #isMissing({ version }: Segment): boolean {
    return !this.#held.has(version) && this.#source.remembered(version) === undefined;
  }

  #missingFrom(start: number): { readonly group: Segment[]; readonly end: number } {
    const group: Segment[] = [];
    let end = start;
    for (
      ;
      end < this.#source.segments.length && group.length < this.#sizes.groupSegments;
      end += 1
    ) {
      const segment = this.#source.segments[end];
      if (segment !== undefined && this.#isMissing(segment)) group.push(segment);
    }
    return { group, end };
  }

  #query(group: readonly Segment[], isAhead: boolean): void {
    const reading = this.#source.read(group);
    for (const { version, count } of group) {
      const text = reading.then((texts) => texts.get(version));
      // The generator awaits this promise later, or never if the client disconnects.
      text.catch(() => undefined);
      this.#held.set(version, { text, ahead: isAhead ? count : 0 });
    }
  }
}

function countOf(segments: readonly Segment[]): number {
  return segments.reduce((sum, { count }) => sum + count, 0);
}

/** The exports of `expand-orders.wat`. The parameters of `expand` are addresses in bytes. */
export interface Expansion {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  expand(read: number, end: number, write: number, pieces: number): number;
}

/** The JSON before the first order and after the last order of a piece of the list. */
interface ArrayEnds {
  readonly opening: "[" | ",";
  readonly closing: "]" | "";
}

// The layout of the WebAssembly memory, in bytes. It begins with a table by ASCII code. Each entry
// has the JSON of a letter, the length to write before a value, and the length before a letter.
const PIECES_AT = 0;
const PIECE_BYTES = 32;
const LENGTH_BEFORE_VALUE_AT = 24;
const LENGTH_BEFORE_LETTER_AT = 25;
const SHORTHAND_AT = PIECES_AT + 128 * PIECE_BYTES;

/**
 * Spare bytes after the shorthand and after the JSON, because the WebAssembly loop goes past both
 * ends. The bytes after the shorthand do not affect the JSON of its last letter.
 */
const SLACK_BYTES = 32;
const MEMORY_PAGE_BYTES = 65_536;

/** An upper bound of JSON bytes per shorthand byte: at worst, the 8 bytes `i1p1q1sf` become 49. */
const MAX_GROWTH = 7;

const FIRST_PIECE = PIECES[SEPARATOR].slice(1);

const encoder = new TextEncoder();

/** Converts orders to JSON. Reuses its memory, because allocating takes longer than filling it. */
export class OrderExpander {
  readonly #expansion: Expansion;

  constructor(expansion: Expansion) {
    this.#expansion = expansion;
    for (const [letter, piece] of Object.entries(PIECES)) this.#set(letter, piece, piece.length);
    for (const [letter, piece] of Object.entries(PIECES_OF_VALUES)) this.#set(letter, piece, 0);
  }

  /** Converts complete orders from shorthand to JSON objects that are separated by commas. */
  expand(shorthand: string, { opening, closing }: ArrayEnds): Uint8Array<ArrayBuffer> {
    const shorthandEnd = SHORTHAND_AT + shorthand.length;
    const jsonAt = shorthandEnd + SLACK_BYTES;
    const maxJsonBytes = FIRST_PIECE.length + shorthand.length * MAX_GROWTH;
    const memory = this.#memory(jsonAt + maxJsonBytes + SLACK_BYTES);
    const write = (ascii: string, at: number) =>
      at + encoder.encodeInto(ascii, memory.subarray(at)).written;

    write(shorthand, SHORTHAND_AT);
    const ordersAt = write(opening + FIRST_PIECE, jsonAt);
    const ordersEnd = this.#expansion.expand(SHORTHAND_AT, shorthandEnd, ordersAt, PIECES_AT);
    return memory.slice(jsonAt, write(closing, ordersEnd));
  }

  #set(letter: string, piece: string, lengthBeforeLetter: number): void {
    const at = PIECES_AT + letter.charCodeAt(0) * PIECE_BYTES;
    const entry = new Uint8Array(this.#expansion.memory.buffer, at, PIECE_BYTES);
    encoder.encodeInto(piece, entry);
    entry[LENGTH_BEFORE_VALUE_AT] = piece.length;
    entry[LENGTH_BEFORE_LETTER_AT] = lengthBeforeLetter;
  }

  #memory(bytes: number): Uint8Array<ArrayBuffer> {
    const { memory } = this.#expansion;
    const missing = bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / MEMORY_PAGE_BYTES));
    return new Uint8Array(memory.buffer);
  }
}
