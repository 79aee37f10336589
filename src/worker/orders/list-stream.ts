import type { Segment, SegmentTexts } from "./list-database.ts";
import type { ListSizes, Place, SegmentMemory } from "./list-memory.ts";
import type { OrderExpander } from "./shorthand/expander.ts";
import { sliceEnd } from "./shorthand/letters.ts";

const NOTHING = new Uint8Array();

/**
 * Returns a stream of the pieces that a generator yields and returns. Produces each piece only when
 * the client reads it, so only one piece of JSON is in memory.
 *
 * @param options.onMove called when the client requests a piece, and when the piece is ready.
 * @param options.cutOff if it resolves with an error, the list ends with this error. Another request
 *   may resolve it: the list then ends in its own request.
 * @param options.onEnd called once, at the end; without an error if all was sent or the client
 *   disconnected.
 */
export function listStream(
  pieces: AsyncGenerator<Uint8Array, Uint8Array>,
  options: {
    readonly onMove: () => void;
    readonly cutOff: Promise<Error>;
    readonly onEnd: (error?: unknown) => void;
  },
): ReadableStream<Uint8Array> {
  let hasEnded = false;
  const end = (error?: unknown) => {
    hasEnded = true;
    options.onEnd(error);
  };
  const source: UnderlyingSource<Uint8Array> = {
    start(controller: ReadableStreamDefaultController<Uint8Array>) {
      void options.cutOff.then((error) => {
        if (hasEnded) return;
        fail(controller, error);
        void pieces.return(NOTHING);
      });
    },
    async pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      options.onMove();
      try {
        const { done, value } = await pieces.next();
        if (hasEnded) return;
        controller.enqueue(value);
        options.onMove();
        if (done !== true) return;
        controller.close();
        end();
      } catch (error) {
        if (!hasEnded) fail(controller, error);
      }
    },
    async cancel() {
      if (!hasEnded) end();
      await pieces.return(NOTHING);
    },
  };
  const fail = (controller: ReadableStreamDefaultController<Uint8Array>, cause: unknown) => {
    // `retryable` makes workerd treat the error as a lost connection. workerd reports every other
    // error of a body as an uncaught exception, in addition to the list's own log event.
    const error = new Error("The list was cut off.", { cause });
    controller.error(Object.assign(error, { retryable: true }));
    end(cause);
  };
  return new ReadableStream(source, { highWaterMark: 0 });
}

/**
 * Yields the list of orders as a JSON array in pieces, and returns the last piece: the closing
 * bracket. So a list that is cut off is never valid JSON.
 *
 * @param texts the orders of each segment in shorthand, in ascending order of ids.
 */
export async function* listText(
  texts: AsyncIterable<string>,
  expander: OrderExpander,
  pieceBytes: number,
): AsyncGenerator<Uint8Array, Uint8Array> {
  let opening: "[" | "," = "[";
  for await (const text of texts) {
    for (let start = 0; start < text.length;) {
      const end = sliceEnd(text, start, pieceBytes);
      yield expander.expand(text.slice(start, end), { opening, closing: "" });
      opening = ",";
      start = end + 1;
    }
  }
  return new TextEncoder().encode(opening === "[" ? "[]" : "]");
}

/** A segment that was queried for a list and is not sent yet. */
interface Held {
  readonly text: Promise<string | undefined>;
  /** The orders for which the list has taken room to read ahead; 0 if its own place is enough. */
  readonly ahead: number;
}

/**
 * Reads the segments of one list in order. A segment comes from the isolate's memory, else from the
 * database. Several queries overlap, because each of them takes a round trip. A segment that was
 * queried is held until it is sent, so no segment is queried twice.
 */
export class SegmentReader {
  readonly #segments: readonly Segment[];
  readonly #memory: SegmentMemory;
  readonly #sizes: Pick<ListSizes, "groupSegments" | "groupsAhead">;
  readonly #ownSegments: number;
  readonly #read: (segments: readonly Segment[]) => Promise<SegmentTexts>;
  readonly #held = new Map<string, Held>();
  #readsAhead = true;

  /**
   * @param options.ownSegments how many segments one query may read that does not read ahead.
   * @param options.read runs one query.
   */
  constructor(
    segments: readonly Segment[],
    options: {
      readonly memory: SegmentMemory;
      readonly sizes: Pick<ListSizes, "groupSegments" | "groupsAhead">;
      readonly ownSegments: number;
      readonly read: (segments: readonly Segment[]) => Promise<SegmentTexts>;
    },
  ) {
    this.#segments = segments;
    this.#memory = options.memory;
    this.#sizes = options.sizes;
    this.#ownSegments = options.ownSegments;
    this.#read = options.read;
  }

  forgetAhead(): void {
    this.#readsAhead = false;
    this.#held.clear();
  }

  /**
   * Yields the orders of each segment in shorthand.
   *
   * @param texts the segments that were read with the manifest.
   * @throws the error of `read`.
   */
  texts(texts: SegmentTexts, place: Place): AsyncGenerator<string, void> {
    // Not in the generator, which would keep the map with all these texts until it ends.
    this.#holdFirst(texts, place);
    return this.#inOrder(place);
  }

  async *#inOrder(place: Place): AsyncGenerator<string, void> {
    const { groupSegments, groupsAhead } = this.#sizes;
    /** No segment before this one is read ahead. */
    let next = 0;
    for (const [index, segment] of this.#segments.entries()) {
      next = Math.max(next, index);
      // Reads ahead only after the first segment is sent, so that the response begins early.
      while (
        index > 0 &&
        this.#readsAhead &&
        this.#held.size <= (groupsAhead - 1) * groupSegments
      ) {
        const { group, end } = this.#missingFrom(next);
        if (group.length > 0 && !place.readAhead(countOf(group))) break;
        next = end;
        if (group.length === 0) break;
        this.#query(group, true);
      }
      if (this.#isMissing(segment)) {
        const own = this.#segments.slice(index, index + this.#ownSegments);
        this.#query(
          own.filter((one) => this.#isMissing(one)),
          false,
        );
      }
      const { version } = segment;
      const held = this.#held.get(version);
      const text = this.#memory.get(version) ?? (await held?.text);
      if (text === undefined) throw new Error("A segment of the list was not read.");
      yield text;
      if (this.#held.delete(version)) place.sent(held?.ahead ?? 0);
    }
  }

  #holdFirst(texts: SegmentTexts, place: Place): void {
    const read = this.#segments.filter(({ version }) => texts.has(version));
    for (const [index, segment] of read.entries()) {
      // The place of the list has room for the first one.
      const ahead = index === 0 ? 0 : segment.count;
      if (ahead > 0 && !place.readAhead(ahead)) return;
      this.#held.set(segment.version, { text: Promise.resolve(texts.get(segment.version)), ahead });
    }
  }

  #isMissing({ version }: Segment): boolean {
    return !this.#held.has(version) && this.#memory.get(version) === undefined;
  }

  #missingFrom(start: number): { readonly group: Segment[]; readonly end: number } {
    const group: Segment[] = [];
    let end = start;
    for (; end < this.#segments.length && group.length < this.#sizes.groupSegments; end += 1) {
      const segment = this.#segments[end];
      if (segment !== undefined && this.#isMissing(segment)) group.push(segment);
    }
    return { group, end };
  }

  #query(group: readonly Segment[], isAhead: boolean): void {
    const reading = this.#read(group);
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
