import type { Manifest, Segment, SegmentJson } from "./list-database.ts";
import type { CountedList, ListPlaces } from "./list-places.ts";
import type { ListSizes } from "./list-sizes.ts";
import { bytesOf, type SegmentMemory } from "./segment-memory.ts";

/** The error of a list that `ListPlaces` has cut off. */
export class CutOffError extends Error {}

interface ListSource {
  readonly keyId: string;
  readonly manifest: Manifest;
  /** Runs one query. Keeps the request alive meanwhile. */
  readonly read: (segments: readonly Segment[]) => Promise<SegmentJson>;
}

/** A segment that was queried for this list alone and is not sent yet. */
interface OwnSegment {
  readonly json: Promise<Uint8Array | undefined>;
  readonly bytes: number;
  readonly isAhead: boolean;
}

export const OPENING = new TextEncoder().encode("[");
export const CLOSING = new TextEncoder().encode("]");
/** How often a list waits in vain for a segment that another list reads. */
const MAX_WAITS = 2;

/**
 * One list on its way to a client, as views of the segments in memory. A segment that memory lacks is
 * read into memory, with the next ones, for all lists that wait for it. If memory has no room, the
 * list needs a place, reads alone, and ahead only while other lists leave room for that.
 */
export class ListStream implements CountedList {
  readonly keyId: string;
  takenMs = Date.now();
  readonly #source: ListSource;
  readonly #memory: SegmentMemory;
  readonly #places: ListPlaces;
  readonly #sizes: ListSizes;
  readonly #segments: readonly Segment[];
  /** How many segments a query reads that does not read ahead: a list has few enough queries. */
  readonly #ownSegments: number;
  /** The bytes that the list needs alone while memory has no room. */
  readonly placeBytes: number;
  readonly #own = new Map<string, OwnSegment>();
  /** The next segment to send, and the next one to read ahead. */
  #next = 0;
  #nextAhead = 0;
  /** The segment that the client takes at the moment. */
  #taken: { readonly version: string; readonly json: Uint8Array } | null = null;
  #hasBegun = false;
  #hasEnded = false;
  #readsAhead = true;
  readonly #isNeeded = Promise.withResolvers<void>();

  /** @param first segments that were read with the manifest. The list keeps only the first one. */
  constructor(
    source: ListSource,
    first: SegmentJson,
    memory: SegmentMemory,
    places: ListPlaces,
    sizes: ListSizes,
  ) {
    const { segments } = source.manifest;
    const largest = segments.reduce((most, { bytes }) => Math.max(most, bytes), 0);
    this.#ownSegments = Math.ceil(segments.length / sizes.maxQueries);
    this.placeBytes = this.#ownSegments * largest;
    this.keyId = source.keyId;
    this.#segments = segments;
    this.#source = source;
    this.#memory = memory;
    this.#places = places;
    this.#sizes = sizes;
    const [version = "", json] = first.entries().next().value ?? [];
    if (json !== undefined && !memory.has(version, json)) {
      this.#own.set(version, { json: Promise.resolve(json), bytes: json.length, isAhead: false });
    }
  }

  /** What memory does not hold: the segments that were read for this list, and the one that it sends. */
  get alone(): number {
    const taken = this.#taken;
    const isShared = taken === null || this.#memory.has(taken.version, taken.json);
    return this.#ownBytes(false) + (isShared ? 0 : taken.json.length);
  }

  get ahead(): number {
    return this.#ownBytes(true);
  }

  #ownBytes(isAhead: boolean): number {
    let sum = 0;
    for (const one of this.#own.values()) if (one.isAhead === isAhead) sum += one.bytes;
    return sum;
  }

  forgetAhead(): void {
    this.#readsAhead = false;
    for (const [version, { isAhead }] of this.#own) if (isAhead) this.#own.delete(version);
  }

  /** Another request may call this: the list then ends in its own request. */
  cutOff(): void {
    this.#isNeeded.resolve();
  }

  /**
   * Returns the list as a JSON array. Produces each piece only when the client takes it. A list that
   * is cut off lacks its bracket, so it is never valid JSON.
   *
   * @param onEnd called once, at the end; without an error if all was sent or the client
   *   disconnected.
   */
  start(onEnd: (error?: unknown) => void): ReadableStream<Uint8Array> {
    this.#places.begin(this);
    this.#memory.begin(this.#source.manifest);
    const end = (error?: unknown) => {
      this.#hasEnded = true;
      // A client that stays connected keeps the stream, but no orders that nobody counts any more.
      this.#own.clear();
      this.#taken = null;
      this.#memory.end(this.#source.manifest);
      this.#places.end(this);
      onEnd(error);
    };
    const fail = (controller: ReadableStreamDefaultController<Uint8Array>, cause: unknown) => {
      if (this.#hasEnded) return;
      // `retryable` makes workerd treat the error as a lost connection. workerd reports every other
      // error of a body as an uncaught exception, in addition to the list's own log event.
      const error = new Error("The list was cut off.", { cause });
      controller.error(Object.assign(error, { retryable: true }));
      end(cause);
    };
    const send = (
      controller: ReadableStreamDefaultController<Uint8Array>,
      json: Uint8Array | null,
    ) => {
      if (this.#hasEnded) return;
      this.takenMs = Date.now();
      const opening = this.#hasBegun ? [] : [OPENING];
      // The comma before the first order of the list is left out.
      const piece = json === null ? CLOSING : json.subarray(opening.length);
      for (const bytes of [...opening, piece]) controller.enqueue(bytes);
      this.#hasBegun = true;
      if (json !== null) return;
      controller.close();
      end();
    };
    const source: UnderlyingSource<Uint8Array> = {
      start: (controller: ReadableStreamDefaultController<Uint8Array>) => {
        void this.#isNeeded.promise.then(() => {
          fail(controller, new CutOffError("Another list needed its place."));
        });
      },
      pull: async (controller: ReadableStreamDefaultController<Uint8Array>) => {
        this.takenMs = Date.now();
        this.#taken = null;
        try {
          send(controller, await this.#take());
        } catch (error) {
          fail(controller, error);
        }
      },
      cancel: () => {
        if (!this.#hasEnded) end();
      },
    };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  /** Returns the next segment with orders; `null` at the end. */
  async #take(): Promise<Uint8Array | null> {
    for (;;) {
      const segment = this.#segments[this.#next];
      if (segment === undefined) return null;
      const { version } = segment;
      this.#readAhead();
      const json = this.#memory.get(version) ?? (await this.#jsonOf(segment));
      this.#taken = { version, json };
      this.#own.delete(version);
      this.#next += 1;
      this.#readAhead();
      if (json.length > 0) return json;
    }
  }

  async #jsonOf(segment: Segment): Promise<Uint8Array> {
    const { version } = segment;
    for (let waits = 0; !this.#hasEnded;) {
      // While the service makes its client wait, a list does not stall. Each wait below is shorter.
      this.takenMs = Date.now();
      const json = this.#memory.get(version) ?? (await this.#own.get(version)?.json);
      if (json !== undefined) return json;
      this.#own.delete(version);
      if (waits < MAX_WAITS && this.#memory.isBeingRead(version)) {
        waits += 1;
        await this.#memory.waitFor(version);
        continue;
      }
      const { group, end } = this.#missingFrom(this.#next, this.#sizes.groupBytes);
      const shared = waits < MAX_WAITS ? this.#share(group) : null;
      if (shared !== null) this.#nextAhead = Math.max(this.#nextAhead, end);
      const read = (await shared)?.get(version);
      if (read !== undefined) return read;
      // Memory has no room.
      if (!this.#places.hasPlace(this) && !(await this.#places.wait(this, this.placeBytes))) break;
      this.#readAlone(this.#ownFrom(this.#next), false);
    }
    throw new CutOffError("Another list needed its place.");
  }

  /** Only after the first segment is sent, so that the response begins early. */
  #readAhead(): void {
    if (!this.#hasBegun) return;
    const { groupBytes, groupsAhead } = this.#sizes;
    this.#nextAhead = Math.max(this.#nextAhead, this.#next);
    const windowBytes = (groupsAhead - 1) * groupBytes;
    let aheadBytes = bytesOf(this.#segments.slice(this.#next, this.#nextAhead));
    while (
      this.#readsAhead &&
      aheadBytes <= windowBytes &&
      this.#nextAhead < this.#segments.length
    ) {
      const { group, end } = this.#missingFrom(this.#nextAhead, groupBytes);
      if (group.length > 0) {
        const shared = this.#share(group);
        // Whoever needs a segment of it sees the error.
        shared?.catch(() => undefined);
        if (shared === null) {
          const isAllowed = this.#places.hasPlace(this) && this.#places.allowsAhead(bytesOf(group));
          if (!isAllowed) return;
          this.#readAlone(group, true);
        }
      }
      aheadBytes += bytesOf(this.#segments.slice(this.#nextAhead, end));
      this.#nextAhead = end;
    }
  }

  /** Reads segments into memory; `null` if it has no room. */
  #share(group: readonly Segment[]): Promise<SegmentJson> | null {
    return this.#memory.read(group, this.#source.read);
  }

  #readAlone(group: readonly Segment[], isAhead: boolean): void {
    const reading = this.#source.read(group);
    for (const { version, bytes } of group) {
      const json = reading.then((read) => read.get(version));
      // Awaited later, or never if the client disconnects.
      json.catch(() => undefined);
      this.#own.set(version, { json, bytes, isAhead });
    }
  }

  /** The segments of one query that the list needs alone. */
  #ownFrom(start: number): readonly Segment[] {
    return this.#segments
      .slice(start, start + this.#ownSegments)
      .filter((one) => this.#isMissing(one));
  }

  #isMissing({ version }: Segment): boolean {
    return !this.#own.has(version) && this.#memory.get(version) === undefined;
  }

  /** Returns missing segments of this many bytes, and the index after the last segment looked at. */
  #missingFrom(start: number, maxBytes: number) {
    const group: Segment[] = [];
    let end = start;
    let bytes = 0;
    for (; end < this.#segments.length; end += 1) {
      const segment = this.#segments[end] as Segment;
      if (!this.#isMissing(segment) || this.#memory.isBeingRead(segment.version)) continue;
      bytes += segment.bytes;
      if (bytes > maxBytes && group.length > 0) break;
      group.push(segment);
    }
    return { group, end };
  }
}
