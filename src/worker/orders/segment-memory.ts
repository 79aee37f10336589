import { withDeadline } from "../deadline.ts";
import type { Manifest, Segment, SegmentJson } from "./list-database.ts";

/** A segment that one request reads, and others may wait for. */
interface Reading {
  /** The bytes that are reserved for the segment. */
  readonly length: number;
  /** When the query has settled, unless the platform has ended its request. */
  readonly untilMs: number;
  /** Wake the requests that wait for the end of the query. */
  readonly wakes: (() => void)[];
}

/**
 * The newest manifest of an isolate and its segments, as the bytes that every list sends. Each
 * segment is read once, for all lists that wait for it.
 *
 * Segments of older manifests stay until new ones need their room. Others are not evicted: LRU would
 * evict exactly those that a large list needs next.
 */
export class SegmentMemory {
  readonly #maxBytes: () => number;
  readonly #readMs: number;
  #manifest: Manifest | null = null;
  #newest: ReadonlySet<string> = new Set();
  readonly #segments = new Map<string, Uint8Array | Reading>();

  /**
   * @param maxBytes returns how many bytes memory may have at the moment.
   * @param readMs milliseconds within which every query settles.
   */
  constructor(maxBytes: () => number, readMs: number) {
    this.#maxBytes = maxBytes;
    this.#readMs = readMs;
  }

  get manifest(): Manifest | null {
    return this.#manifest;
  }

  /** Sets the newest manifest. */
  set manifest(manifest: Manifest) {
    this.#manifest = manifest;
    this.#newest = new Set(manifest.segments.map(({ version }) => version));
  }

  /** The bytes of all segments in memory, and of those that are being read. */
  get bytes(): number {
    return this.#segments.values().reduce((sum, { length }) => sum + length, 0);
  }

  /** The versions of the newest segments in memory, in the order of the manifest. */
  get versions(): readonly string[] {
    return [...this.#newest].filter((version) => this.get(version) !== undefined);
  }

  get(version: string): Uint8Array | undefined {
    const found = this.#find(version);
    return found instanceof Uint8Array ? found : undefined;
  }

  /** Whether memory contains neither a segment nor a request that reads it. */
  lacks({ version }: Segment): boolean {
    return this.#find(version) === undefined;
  }

  /** The bytes of newest segments that memory has room for. */
  get room(): number {
    return this.#maxBytes() - this.bytes + bytesOf(this.#evictable().toArray());
  }

  /** Whether lists of this manifest can be sent from memory, once it has been read. */
  canHold({ version, segments }: Manifest): boolean {
    const isNewest = version === this.#manifest?.version;
    if (!isNewest) return segments.every((one) => this.get(one.version) !== undefined);
    return bytesOf(segments.filter((one) => this.lacks(one))) <= this.room;
  }

  /** Adds segments if there is room. */
  add(json: SegmentJson): void {
    for (const [version, one] of json) {
      if (this.get(version) === undefined && this.#makeRoom([{ version, bytes: one.length }]))
        this.#segments.set(version, one);
    }
  }

  /**
   * Waits until another request has read a segment: successfully, if memory then contains it. If the
   * platform has ended that request, the wait ends when its query should have settled.
   *
   * @returns `null` if no request reads it.
   */
  waitFor(version: string): Promise<void> | null {
    const reading = this.#find(version);
    if (reading === undefined || reading instanceof Uint8Array) return null;
    const { promise, resolve } = Promise.withResolvers<void>();
    reading.wakes.push(resolve);
    return withDeadline(promise, reading.untilMs - Date.now()).catch(() => undefined);
  }

  /**
   * Reads segments into memory with one query.
   *
   * @returns `null` if there is no room.
   */
  read(
    segments: readonly Segment[],
    query: (segments: readonly Segment[]) => Promise<SegmentJson>,
  ): Promise<SegmentJson> | null {
    if (!this.#makeRoom(segments)) return null;
    const wakes: (() => void)[] = [];
    const untilMs = Date.now() + this.#readMs;
    const readings = new Map<string, Reading>(
      segments.map(({ version, bytes }) => [version, { length: bytes, untilMs, wakes }]),
    );
    for (const [version, reading] of readings) this.#segments.set(version, reading);
    const end = (json?: SegmentJson) => {
      for (const [version, reading] of readings) {
        if (this.#segments.get(version) !== reading) continue;
        const one = json?.get(version);
        if (one === undefined) this.#segments.delete(version);
        else this.#segments.set(version, one);
      }
      for (const wake of wakes) wake();
    };
    const read = query(segments);
    read.then(end, () => end());
    return read;
  }

  /** Forgets a query that has not settled in time: the platform has ended its request. */
  #find(version: string): Uint8Array | Reading | undefined {
    const found = this.#segments.get(version);
    const isLate = found !== undefined && !(found instanceof Uint8Array) && isOver(found);
    if (isLate) this.#segments.delete(version);
    return isLate ? undefined : found;
  }

  /** Older segments, the longest kept first, and queries that have not settled in time. */
  *#evictable(): Generator<Pick<Segment, "version" | "bytes">, void> {
    for (const [version, one] of this.#segments) {
      const isIdle = one instanceof Uint8Array ? !this.#newest.has(version) : isOver(one);
      if (isIdle) yield { version, bytes: one.length };
    }
  }

  /** Returns whether there is room. Only segments of the newest manifest evict others. */
  #makeRoom(segments: readonly Pick<Segment, "version" | "bytes">[]): boolean {
    const bytes = bytesOf(segments);
    const isNewest = segments.every(({ version }) => this.#newest.has(version));
    if (bytes > (isNewest ? this.room : this.#maxBytes() - this.bytes)) return false;
    for (const { version } of this.#evictable()) {
      if (this.bytes + bytes <= this.#maxBytes()) break;
      this.#segments.delete(version);
    }
    return true;
  }
}

function isOver({ untilMs }: Reading): boolean {
  return Date.now() >= untilMs;
}

export function bytesOf(segments: readonly Pick<Segment, "bytes">[]): number {
  return segments.reduce((sum, { bytes }) => sum + bytes, 0);
}
