import type { ReadSegments, Segment, SegmentJson } from "./list-database.ts";
import { ListError } from "./list-error.ts";
import type { CountedList, ListPlaces } from "./list-places.ts";
import type { ListSizes } from "./list-sizes.ts";
import { bytesOf, type SegmentMemory } from "./segment-memory.ts";

export const OPENING = new TextEncoder().encode("[");
export const CLOSING = new TextEncoder().encode("]");
const NOTHING = new Uint8Array();
/** How often a list waits in vain for a segment that another list reads. */
const MAX_WAITS = 2;

interface ListStreamOptions {
  readonly keyId: string;
  readonly segments: readonly Segment[];
  readonly memory: SegmentMemory;
  readonly places: ListPlaces;
  readonly sizes: ListSizes;
  readonly read: ReadSegments;
}

/**
 * One list on its way to a client, as views of the segments in memory. A segment that memory lacks is
 * read into memory, with the next ones, for all lists that wait for it. If memory has no room, the
 * list needs a place, and reads alone: more than its place only while other lists leave room.
 */
export class ListStream implements CountedList {
  readonly keyId: string;
  readonly placeBytes: number;
  takenMs = Date.now();
  readonly #options: ListStreamOptions;
  /** The segments that were read for this list alone and are not sent yet. */
  #own = new Map<string, Uint8Array>();
  /** The bytes that a query reads for this list alone. */
  #readingBytes = 0;
  #next = 0;
  /** The segment that the client takes at the moment. */
  #taken: Uint8Array = NOTHING;
  #hasBegun = false;
  #hasEnded = false;
  readonly #isNeeded = Promise.withResolvers<void>();
  /** Another request may call this: the list then ends in its own request. */
  readonly cutOff = this.#isNeeded.resolve;
  readonly forgetSpare = () => this.#own.clear();

  constructor(options: ListStreamOptions) {
    const { keyId, segments, sizes } = options;
    this.#options = options;
    this.keyId = keyId;
    const largest = Math.max(0, ...segments.map(({ bytes }) => bytes));
    // The list needs at most `maxQueries` queries, even if each reads only a place.
    this.placeBytes = Math.ceil(segments.length / sizes.maxQueries) * largest;
  }

  get alone(): number {
    const { memory, segments } = this.#options;
    const isShared = memory.get(segments[this.#next - 1]?.version ?? "") === this.#taken;
    const own = this.#own.values().reduce((sum, { length }) => sum + length, 0);
    return (isShared ? 0 : this.#taken.length) + own + this.#readingBytes;
  }

  /**
   * Returns the list as a JSON array. Produces each piece only when the client takes it. A list that
   * is cut off lacks its bracket, so it is never valid JSON.
   *
   * @param onEnd called once, at the end; without an error if all was sent or the client
   *   disconnected.
   */
  start(onEnd: (error?: unknown) => void): ReadableStream<Uint8Array> {
    const { places } = this.#options;
    let controller!: ReadableStreamDefaultController<Uint8Array>;
    const end = (error?: unknown) => {
      this.#hasEnded = true;
      // A client that stays connected keeps the stream, but no orders that nobody counts any more.
      this.#own.clear();
      this.#taken = NOTHING;
      places.end(this);
      onEnd(error);
    };
    const fail = (cause: unknown) => {
      if (this.#hasEnded) return;
      // `retryable` makes workerd treat the error as a lost connection. workerd reports every other
      // error of a body as an uncaught exception, in addition to the list's own log event.
      const error = new Error("The list was cut off.", { cause });
      controller.error(Object.assign(error, { retryable: true }));
      end(cause);
    };
    const pull = async () => {
      this.#taken = NOTHING;
      const json = await this.#take();
      if (this.#hasEnded) return;
      this.takenMs = Date.now();
      if (!this.#hasBegun) controller.enqueue(OPENING);
      // The comma before the first order of the list is left out.
      controller.enqueue(json?.subarray(this.#hasBegun ? 0 : 1) ?? CLOSING);
      this.#hasBegun = true;
      if (json !== null) return;
      controller.close();
      end();
    };
    places.begin(this);
    void this.#isNeeded.promise.then(() => fail(new ListError("order_list_displaced")));
    const source: UnderlyingSource<Uint8Array> = {
      start: (one: ReadableStreamDefaultController<Uint8Array>) => void (controller = one),
      pull: () => pull().catch(fail),
      cancel: () => (this.#hasEnded ? undefined : end()),
    };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  /** Returns the next segment with orders; `null` at the end. */
  async #take(): Promise<Uint8Array | null> {
    for (;;) {
      const segment = this.#options.segments[this.#next];
      if (segment === undefined) return null;
      // Only once the response has begun.
      if (this.#hasBegun) this.#readAhead();
      this.#taken = await this.#jsonOf(segment.version);
      this.#own.delete(segment.version);
      this.#next += 1;
      if (this.#taken.length > 0) return this.#taken;
    }
  }

  async #jsonOf(version: string): Promise<Uint8Array> {
    const { memory, places } = this.#options;
    let json = memory.get(version) ?? this.#own.get(version);
    for (let waits = 0; json === undefined && waits < MAX_WAITS; waits += 1) {
      const reading = memory.waitFor(version) ?? this.#share(this.#next);
      if (reading === null) break;
      // While the service makes its client wait, a list does not stall. No wait is that long.
      this.takenMs = Date.now();
      json = (await reading)?.get(version) ?? memory.get(version);
    }
    // Memory has no room.
    if (json === undefined && !this.#hasEnded && (await places.wait(this))) {
      json = (await this.#readAlone()).get(version);
    }
    if (json === undefined || this.#hasEnded) throw new ListError("order_list_displaced");
    return json;
  }

  /** Reads what comes next for all lists, as far as memory has room. */
  #readAhead(): void {
    const { segments, sizes } = this.#options;
    let aheadBytes = 0;
    for (let at = this.#next; aheadBytes <= (sizes.groupsAhead - 1) * sizes.groupBytes; at += 1) {
      const segment = segments[at];
      if (segment === undefined) return;
      // Whoever needs a segment of it sees the error of a query.
      if (this.#isMissing(segment) && this.#share(at) === null) return;
      if (at > this.#next) aheadBytes += segment.bytes;
    }
  }

  /** Reads missing segments into memory; `null` if it has no room. */
  #share(start: number): Promise<SegmentJson> | null {
    const { memory, sizes, read } = this.#options;
    return memory.read(this.#missingFrom(start, sizes.groupBytes), read);
  }

  /** Reads what comes next for this list alone: a place, or more while other lists leave room. */
  async #readAlone(): Promise<SegmentJson> {
    const { places, sizes, read } = this.#options;
    const maxBytes = places.allowsSpare(sizes.groupBytes) ? sizes.groupBytes : this.placeBytes;
    this.takenMs = Date.now();
    // What it still has lies further ahead. It counts as spare, and is read again.
    this.#own.clear();
    const group = this.#missingFrom(this.#next, maxBytes);
    this.#readingBytes = bytesOf(group);
    const json = await read(group).finally(() => (this.#readingBytes = 0));
    if (!this.#hasEnded) this.#own = new Map(json);
    return json;
  }

  #isMissing({ version }: Segment): boolean {
    return this.#options.memory.lacks(version) && !this.#own.has(version);
  }

  /** Returns the segment at `start`, and missing ones after it, of up to this many bytes in all. */
  #missingFrom(start: number, maxBytes: number): Segment[] {
    let bytes = 0;
    const group: Segment[] = [];
    for (const segment of this.#options.segments.slice(start)) {
      if (group.length > 0 && !this.#isMissing(segment)) continue;
      bytes += segment.bytes;
      if (group.length > 0 && bytes > maxBytes) break;
      group.push(segment);
    }
    return group;
  }
}
