import type { Manifest } from "./manifest.ts";
import type { Shorthand } from "./shorthand.ts";

const MIB = 2 ** 20;

/** A million ordinary orders fit. */
const DEFAULT_MAX_BYTES = 48 * MIB;

/** Always left to segments of earlier manifests, which lists under way may still need. */
const DEFAULT_EARLIER_BYTES = 8 * MIB;

/**
 * The orders of segments that an isolate keeps in memory, by the segment's version. A segment that
 * is not here is only read again.
 *
 * Segments of the newest manifest stay while they fit: replacing the least recently used one would
 * drop each segment of a large list just before its turn. Segments of earlier manifests go first,
 * the oldest one first of all.
 */
export class SegmentMemory {
  readonly #maxBytes: number;
  readonly #earlierBytes: number;
  /** The oldest first. */
  readonly #segments = new Map<string, Shorthand>();
  #named: ReadonlySet<string> = new Set();
  #totalBytes = 0;
  #namedBytes = 0;

  /**
   * @param maxBytes for the newest manifest.
   * @param earlierBytes for earlier ones, beside that.
   */
  constructor(maxBytes = DEFAULT_MAX_BYTES, earlierBytes = DEFAULT_EARLIER_BYTES) {
    this.#maxBytes = maxBytes;
    this.#earlierBytes = earlierBytes;
  }

  get(version: string): Shorthand | undefined {
    return this.#segments.get(version);
  }

  /** Whether the newest manifest fits if its segments have this many bytes in all. */
  holds(bytes: number): boolean {
    return bytes <= this.#maxBytes;
  }

  /** The versions of all segments in memory. */
  versions(): Iterable<string> {
    return this.#segments.keys();
  }

  /** Gives precedence to the segments of this manifest. */
  renew({ segments }: Manifest): void {
    this.#named = new Set(segments.map(({ version }) => version));
    this.#namedBytes = 0;
    for (const [version, { bytes }] of this.#segments) {
      if (this.#named.has(version)) this.#namedBytes += bytes.length;
    }
  }

  /** Keeps a segment of the newest manifest while there is room. */
  add(version: string, shorthand: Shorthand): void {
    const size = shorthand.bytes.length;
    const isKept = this.#segments.has(version) || !this.#named.has(version);
    if (isKept || this.#namedBytes + size > this.#maxBytes) return;
    this.#segments.set(version, shorthand);
    this.#namedBytes += size;
    this.#totalBytes += size;
    this.#dropEarlier();
  }

  #dropEarlier(): void {
    for (const [version, { bytes }] of this.#segments) {
      if (this.#totalBytes <= this.#maxBytes + this.#earlierBytes) return;
      if (this.#named.has(version)) continue;
      this.#segments.delete(version);
      this.#totalBytes -= bytes.length;
    }
  }
}
