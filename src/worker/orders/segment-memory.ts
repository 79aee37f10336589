import type { Manifest } from "./manifest.ts";
import type { Shorthand } from "./shorthand.ts";

const MIB = 2 ** 20;

/** What a segment takes beside its orders, which may be none. */
const ENTRY_BYTES = 256;

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

  /** Gives precedence to the segments of this manifest. */
  renew({ segments }: Manifest): void {
    this.#named = new Set(segments.map(({ version }) => version));
    this.#namedBytes = 0;
    for (const version of this.#named) {
      const shorthand = this.#segments.get(version);
      if (shorthand !== undefined) this.#namedBytes += sizeOf(shorthand);
    }
  }

  /** Keeps a segment of the newest manifest while there is room. */
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
