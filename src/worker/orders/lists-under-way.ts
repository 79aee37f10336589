/** The memory that one list under way takes. */
export interface Reservation {
  /** The client took a piece of the list. */
  progressed(): void;
  /** Returns the memory. */
  release(): void;
}

interface Entry {
  readonly bytes: number;
  progressedMs: number;
}

/** Bounds the memory of the lists that an isolate sends at the same time. */
export class ListsUnderWay {
  readonly #maxBytes: number;
  readonly #stallMs: number;
  readonly #entries = new Set<Entry>();

  /** @param stallMs a list that nobody reads for this long has ended. */
  constructor(maxBytes: number, stallMs: number) {
    this.#maxBytes = maxBytes;
    this.#stallMs = stallMs;
  }

  /** Reserves memory for a list. @returns `null` if too little is left. */
  reserve(bytes: number): Reservation | null {
    this.#dropStalled();
    let reserved = 0;
    for (const entry of this.#entries) reserved += entry.bytes;
    // A list larger than the bound is sent when it is the only one.
    if (reserved > 0 && reserved + bytes > this.#maxBytes) return null;
    const entry = { bytes, progressedMs: Date.now() };
    this.#entries.add(entry);
    return {
      progressed: () => void (entry.progressedMs = Date.now()),
      release: () => void this.#entries.delete(entry),
    };
  }

  /** A request that ends when its client disconnects runs no code of its own any more. */
  #dropStalled(): void {
    const nowMs = Date.now();
    for (const entry of this.#entries) {
      if (nowMs - entry.progressedMs > this.#stallMs) this.#entries.delete(entry);
    }
  }
}
