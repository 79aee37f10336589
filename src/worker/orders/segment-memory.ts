import { withDeadline } from "../deadline.ts";
import type { ReadSegments, Segment, SegmentJson } from "./list-database.ts";

/** A segment in memory, with the length of its JSON; or one that a request reads until `untilMs`. */
interface Entry {
  readonly bytes: number;
  readonly json?: Uint8Array;
  readonly untilMs?: number;
  /** Give what was read to the requests that wait for it. */
  readonly wakes?: ((found?: SegmentJson) => void)[];
}

/**
 * The segments in the memory of an isolate, as the bytes that every list sends. Each segment is read
 * once, for all lists that wait for it.
 *
 * Segments of older manifests stay until new ones need their room. Others are not evicted: LRU would
 * evict exactly those that a large list needs next.
 */
export class SegmentMemory {
  /** The versions of the segments of the newest manifest, in its order. */
  newest: ReadonlySet<string> = new Set();
  readonly #maxBytes: () => number;
  readonly #readMs: number;
  readonly #entries = new Map<string, Entry>();

  /**
   * @param maxBytes returns how many bytes memory may have at the moment.
   * @param readMs milliseconds within which every query settles.
   */
  constructor(maxBytes: () => number, readMs: number) {
    this.#maxBytes = maxBytes;
    this.#readMs = readMs;
  }

  /** The bytes of all segments in memory, and of those that are being read. */
  get bytes(): number {
    return bytesOf(this.#entries.values());
  }

  /** The versions of the newest segments in memory, in the order of the manifest. */
  get versions(): readonly string[] {
    return [...this.newest].filter((version) => this.get(version) !== undefined);
  }

  get(version: string): Uint8Array | undefined {
    return this.#entries.get(version)?.json;
  }

  /** Whether memory contains neither a segment nor a request that reads it. */
  lacks(version: string): boolean {
    const { untilMs = Infinity } = this.#entries.get(version) ?? { untilMs: 0 };
    return Date.now() >= untilMs;
  }

  /** The bytes of newest segments that memory has room for. */
  get room(): number {
    return this.#maxBytes() - this.bytes + bytesOf(this.#idle().map(([, entry]) => entry));
  }

  /** Whether lists of these segments can be sent from memory, once they have been read. */
  canHold(segments: readonly Segment[]): boolean {
    const missing = segments.filter(({ version }) => this.lacks(version));
    return missing.length === 0 || (this.#areNewest(missing) && bytesOf(missing) <= this.room);
  }

  /** Adds segments if there is room. */
  add(all: SegmentJson): void {
    for (const [version, json] of all) {
      const entry = { version, bytes: json.length, json };
      if (this.get(version) === undefined && this.#makeRoom([entry])) {
        this.#entries.set(version, entry);
      }
    }
  }

  /**
   * Waits for what another request reads: `undefined` if its query fails or, because the platform has
   * ended that request, does not settle in time.
   *
   * @returns `null` if no request reads the segment.
   */
  waitFor(version: string): Promise<SegmentJson | undefined> | null {
    const { wakes, untilMs = 0 } = this.#entries.get(version) ?? {};
    const leftMs = untilMs - Date.now();
    if (wakes === undefined || leftMs <= 0) return null;
    const { promise, resolve } = Promise.withResolvers<SegmentJson | undefined>();
    wakes.push(resolve);
    return withDeadline(promise, leftMs).catch(() => undefined);
  }

  /**
   * Reads segments into memory with one query; `null` if there is no room. The error need not be
   * handled.
   */
  read(segments: readonly Segment[], query: ReadSegments): Promise<SegmentJson> | null {
    if (!this.#makeRoom(segments)) return null;
    const wakes: NonNullable<Entry["wakes"]> = [];
    const untilMs = Date.now() + this.#readMs;
    const readings = segments.map(({ version, bytes }) => ({ version, bytes, untilMs, wakes }));
    for (const reading of readings) this.#entries.set(reading.version, reading);
    const end = (found?: SegmentJson) => {
      for (const reading of readings) {
        const { version } = reading;
        if (this.#entries.get(version) !== reading) continue;
        const json = found?.get(version);
        if (json === undefined) this.#entries.delete(version);
        else this.#entries.set(version, { bytes: json.length, json });
      }
      for (const wake of wakes) wake(found);
    };
    const read = query(segments);
    read.then(end, () => end());
    return read;
  }

  /** Older segments, the longest kept first, and queries that have not settled in time. */
  #idle() {
    return this.#entries
      .entries()
      .filter(([version, { json }]) => (json ? !this.newest.has(version) : this.lacks(version)));
  }

  /** Returns whether there is room. Only segments of the newest manifest evict others. */
  #makeRoom(segments: readonly Pick<Segment, "version" | "bytes">[]): boolean {
    const bytes = bytesOf(segments);
    const room = this.#areNewest(segments) ? this.room : this.#maxBytes() - this.bytes;
    if (bytes > room) return false;
    for (const [version] of this.#idle()) {
      if (this.bytes + bytes <= this.#maxBytes()) break;
      this.#entries.delete(version);
    }
    return true;
  }

  #areNewest(segments: readonly Pick<Segment, "version">[]): boolean {
    return segments.every(({ version }) => this.newest.has(version));
  }
}

export function bytesOf(all: Iterable<Pick<Segment, "bytes">>): number {
  let sum = 0;
  for (const { bytes } of all) sum += bytes;
  return sum;
}
