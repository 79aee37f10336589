import { withDeadline } from "../deadline.ts";
import type { Manifest, Segment, SegmentJson } from "./list-database.ts";

/** A query for segments that other lists may wait for. */
interface Reading {
  readonly segments: readonly Segment[];
  readonly bytes: number;
  readonly startedMs: number;
  /** Wakes the requests that wait for the end of the query. */
  readonly wakes: Set<() => void>;
}

interface SegmentMemoryOptions {
  /** Returns how many bytes memory may have at the moment. */
  readonly maxBytes: () => number;
  /** Milliseconds within which every query settles. */
  readonly readMs: number;
}

/**
 * The newest manifest of an isolate and its segments, as the bytes that every list sends. Each
 * segment is read once, for all lists that wait for it.
 *
 * Segments of older manifests stay while a list of an older manifest is under way and nothing else
 * needs the room. Other segments are not evicted: LRU would evict exactly those that a large list
 * needs next.
 */
export class SegmentMemory {
  readonly #options: SegmentMemoryOptions;
  #manifest: Manifest | null = null;
  /** The segments of the newest manifest, by version. */
  #newest = new Map<string, Segment>();
  readonly #json = new Map<string, Uint8Array>();
  readonly #readings = new Map<string, Reading>();
  /** How many lists of each version are under way. */
  readonly #underWay = new Map<string, number>();
  /** The bytes of all segments in memory, and of those that are being read. */
  #bytes = 0;
  #versionsInMemory: readonly string[] | null = null;

  constructor(options: SegmentMemoryOptions) {
    this.#options = options;
  }

  get manifest(): Manifest | null {
    return this.#manifest;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The versions of the newest segments in memory, in the order of the manifest. */
  get versions(): readonly string[] {
    return (this.#versionsInMemory ??= [...this.#newest.keys()].filter((one) =>
      this.#json.has(one),
    ));
  }

  get(version: string): Uint8Array | undefined {
    return this.#json.get(version);
  }

  /** Whether memory contains exactly these bytes, so that a list that sends them holds nothing. */
  has(version: string, json: Uint8Array): boolean {
    return this.#json.get(version) === json;
  }

  /** The bytes of newest segments that memory has room for. */
  get room(): number {
    let old = 0;
    for (const [version, { length }] of this.#json) if (!this.#newest.has(version)) old += length;
    return this.#options.maxBytes() - this.#bytes + old;
  }

  /** Sets the newest manifest. */
  setManifest(manifest: Manifest): void {
    this.#manifest = manifest;
    this.#newest = new Map(manifest.segments.map((segment) => [segment.version, segment]));
    this.#versionsInMemory = null;
    this.#forgetOld();
  }

  /** Whether lists of this manifest can be sent from memory, once it has been read. */
  canHold({ version, segments }: Manifest): boolean {
    if (version !== this.#manifest?.version)
      return segments.every((one) => this.#json.has(one.version));
    const missing = segments.filter(
      (one) => !this.#json.has(one.version) && !this.#readings.has(one.version),
    );
    return bytesOf(missing) <= this.room;
  }

  /** Keeps the segments of older manifests for a list, until `end`. */
  begin({ version }: Manifest): void {
    this.#underWay.set(version, (this.#underWay.get(version) ?? 0) + 1);
  }

  end({ version }: Manifest): void {
    const others = (this.#underWay.get(version) ?? 0) - 1;
    if (others > 0) this.#underWay.set(version, others);
    else this.#underWay.delete(version);
    this.#forgetOld();
  }

  /** Adds segments if there is room. Those of an older manifest evict no others. */
  add(json: SegmentJson): void {
    for (const [version, bytes] of json) {
      if (this.#json.has(version) || !this.#makeRoom([version], bytes.length)) continue;
      this.#keep(version, bytes);
    }
  }

  /** Whether a segment is being read. A query that has not settled in time is forgotten. */
  isBeingRead(version: string): boolean {
    const reading = this.#readings.get(version);
    if (reading === undefined) return false;
    const isLate = Date.now() - reading.startedMs > this.#options.readMs;
    if (isLate) this.#finish(reading);
    return !isLate;
  }

  /**
   * Waits until another request has read a segment: successfully, if memory then contains it. If the
   * platform has ended that request, the wait ends when its query should have settled.
   */
  async waitFor(version: string): Promise<void> {
    const reading = this.#readings.get(version);
    if (reading === undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    reading.wakes.add(resolve);
    const leftMs = reading.startedMs + this.#options.readMs - Date.now();
    await withDeadline(promise, leftMs).catch(() => this.#finish(reading));
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
    const bytes = bytesOf(segments);
    if (
      !this.#makeRoom(
        segments.map(({ version }) => version),
        bytes,
      )
    )
      return null;
    const reading = { segments, bytes, startedMs: Date.now(), wakes: new Set<() => void>() };
    for (const { version } of segments) this.#readings.set(version, reading);
    this.#bytes += bytes;
    const read = async () => {
      try {
        const json = await query(segments);
        if (this.#finish(reading)) for (const [version, one] of json) this.#keep(version, one);
        return json;
      } finally {
        this.#finish(reading);
        for (const wake of reading.wakes) wake();
      }
    };
    return read();
  }

  /** Ends the reservation of a query. Returns false if it had ended before. */
  #finish(reading: Reading): boolean {
    const own = reading.segments.filter(({ version }) => this.#readings.get(version) === reading);
    if (own.length === 0) return false;
    for (const { version } of own) this.#readings.delete(version);
    this.#bytes -= reading.bytes;
    return true;
  }

  #keep(version: string, json: Uint8Array): void {
    this.#forget(version);
    this.#json.set(version, json);
    this.#bytes += json.length;
    this.#versionsInMemory = null;
  }

  #forget(version: string): void {
    this.#bytes -= this.#json.get(version)?.length ?? 0;
    this.#json.delete(version);
    this.#versionsInMemory = null;
  }

  /** Forgets old segments that no list under way needs. */
  #forgetOld(): void {
    const hasOlder = [...this.#underWay.keys()].some(
      (version) => version !== this.#manifest?.version,
    );
    if (hasOlder) return;
    for (const version of this.#json.keys()) if (!this.#newest.has(version)) this.#forget(version);
  }

  /** Returns whether there is room. Evicts old segments for new ones, the longest kept first. */
  #makeRoom(versions: readonly string[], bytes: number): boolean {
    const fits = () => this.#bytes + bytes <= this.#options.maxBytes();
    if (fits()) return true;
    if (!versions.every((version) => this.#newest.has(version))) return false;
    if (bytes > this.room) return false;
    for (const version of this.#json.keys()) {
      if (!this.#newest.has(version)) this.#forget(version);
      if (fits()) return true;
    }
    return false;
  }
}

export function bytesOf(segments: readonly Segment[]): number {
  return segments.reduce((sum, { bytes }) => sum + bytes, 0);
}
