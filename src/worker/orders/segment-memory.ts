import type { Manifest } from "./list-database.ts";
import { MEMORY_BYTES } from "./list-sizes.ts";

/** The memory of a segment in bytes in addition to the text of its orders. */
const ENTRY_BYTES = 256;

/**
 * The newest manifest of an isolate, and those of its segments that fit into memory. Segments are
 * not evicted to make room: LRU would evict exactly those that a large list needs next.
 */
export class SegmentMemory {
  readonly #maxBytes: number;
  #manifest: Manifest | null = null;
  /** The orders of each segment of the manifest, by version; `null` if memory lacks them. */
  #texts = new Map<string, string | null>();
  #bytes = 0;

  constructor(maxBytes = MEMORY_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get manifest(): Manifest | null {
    return this.#manifest;
  }

  /** The versions of the segments in memory, in the order of the manifest. */
  get versions(): string[] {
    return [...this.#texts].filter(([, text]) => text !== null).map(([version]) => version);
  }

  get(version: string): string | undefined {
    return this.#texts.get(version) ?? undefined;
  }

  /** Sets the newest manifest, and forgets the segments that are not in it. */
  setManifest(manifest: Manifest): void {
    const kept = this.#texts;
    this.#manifest = manifest;
    this.#texts = new Map(manifest.segments.map(({ version }) => [version, null]));
    this.#bytes = 0;
    for (const [version, text] of kept) if (text !== null) this.add(version, text);
  }

  /** Adds a segment if the newest manifest contains it and enough memory is left. */
  add(version: string, text: string): void {
    const size = text.length + ENTRY_BYTES;
    if (this.#texts.get(version) !== null || this.#bytes + size > this.#maxBytes) return;
    this.#texts.set(version, text);
    this.#bytes += size;
  }
}
