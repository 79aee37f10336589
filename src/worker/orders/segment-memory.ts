import { MEMORY_BYTES } from "./list-sizes.ts";
import type { Manifest } from "./manifest.ts";
import type { Shorthand } from "./shorthand.ts";

/** The memory of a segment in addition to its orders. */
const ENTRY_BYTES = 256;

/** Reserved for segments of earlier manifests, which lists under way may still need. */
const DEFAULT_EARLIER_BYTES = 8 * 2 ** 20;

/**
 * The orders of segments that an isolate keeps in memory, by the segment's version. A missing segment
 * is read again.
 *
 * Segments of the newest manifest stay once added, and further ones are not added when memory is
 * full. Least recently used (LRU) replacement would drop each segment of a large list just before its
 * turn. Segments of earlier manifests are dropped first, in the order in which they were added.
 */
export class SegmentMemory {
  readonly #maxBytes: number;
  readonly #earlierBytes: number;
  /** In the order in which they were added. */
  readonly #segments = new Map<string, Shorthand>();
  /** The versions in the newest manifest. */
  #named: ReadonlySet<string> = new Set();
  #totalBytes = 0;
  #namedBytes = 0;

  /**
   * @param maxBytes for the newest manifest.
   * @param earlierBytes for earlier manifests, in addition.
   */
  constructor(maxBytes = MEMORY_BYTES, earlierBytes = DEFAULT_EARLIER_BYTES) {
    this.#maxBytes = maxBytes;
    this.#earlierBytes = earlierBytes;
  }

  get(version: string): Shorthand | undefined {
    return this.#segments.get(version);
  }

  /** Returns whether a manifest fits whose segments have this many bytes in total. */
  holds(bytes: number): boolean {
    return bytes <= this.#maxBytes;
  }

  /** Makes this manifest the newest one. */
  renew({ segments }: Manifest): void {
    this.#named = new Set(segments.map(({ version }) => version));
    this.#namedBytes = 0;
    for (const version of this.#named) {
      const shorthand = this.#segments.get(version);
      if (shorthand !== undefined) this.#namedBytes += sizeOf(shorthand);
    }
  }

  /** Keeps a segment if the newest manifest names it and there is room. */
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
