import { MEMORY_BYTES } from "./list-sizes.ts";
import type { Manifest } from "./manifest.ts";
import type { Shorthand } from "./shorthand.ts";

/** The overhead of a segment in memory, in bytes, in addition to the text of its orders. */
const ENTRY_BYTES = 256;

/**
 * The memory for segments of earlier manifests. Lists that are being sent may still need these
 * segments.
 */
const DEFAULT_EARLIER_BYTES = 8 * 2 ** 20;

/**
 * The segments that an isolate keeps in memory, by version. A segment that is not in memory is read
 * from the cache or the database.
 *
 * Segments of the newest manifest are never evicted. When memory is full, no further segments are
 * added. Least recently used (LRU) eviction would evict each segment of a large list just before
 * the list needs it. Segments of earlier manifests are evicted in the order in which they were
 * added.
 */
export class SegmentMemory {
  readonly #maxBytes: number;
  readonly #earlierBytes: number;
  /** All segments by version, in the order in which they were added. */
  readonly #segments = new Map<string, Shorthand>();
  /** The versions of the segments in the newest manifest. */
  #named: ReadonlySet<string> = new Set();
  #totalBytes = 0;
  #namedBytes = 0;

  /**
   * @param maxBytes the memory for segments of the newest manifest.
   * @param earlierBytes additional memory for segments of earlier manifests.
   */
  constructor(maxBytes = MEMORY_BYTES, earlierBytes = DEFAULT_EARLIER_BYTES) {
    this.#maxBytes = maxBytes;
    this.#earlierBytes = earlierBytes;
  }

  get(version: string): Shorthand | undefined {
    return this.#segments.get(version);
  }

  /** Returns whether segments of this many bytes in total fit into the segment memory. */
  holds(bytes: number): boolean {
    return bytes <= this.#maxBytes;
  }

  /** Sets the newest manifest. */
  renew({ segments }: Manifest): void {
    this.#named = new Set(segments.map(({ version }) => version));
    this.#namedBytes = 0;
    for (const version of this.#named) {
      const shorthand = this.#segments.get(version);
      if (shorthand !== undefined) this.#namedBytes += sizeOf(shorthand);
    }
  }

  /** Adds a segment if the newest manifest contains it and enough memory is left. */
  add(version: string, shorthand: Shorthand): void {
    const size = sizeOf(shorthand);
    const isKept = this.#segments.has(version) || !this.#named.has(version);
    if (isKept || this.#namedBytes + size > this.#maxBytes) return;
    this.#segments.set(version, shorthand);
    this.#namedBytes += size;
    this.#totalBytes += size;
    this.#dropEarlier();
  }

  #dropEarlier(): void {
    for (const [version, shorthand] of this.#segments) {
      if (this.#totalBytes <= this.#maxBytes + this.#earlierBytes) return;
      if (this.#named.has(version)) continue;
      this.#segments.delete(version);
      this.#totalBytes -= sizeOf(shorthand);
    }
  }
}

function sizeOf({ length }: Shorthand): number {
  return length + ENTRY_BYTES;
}
