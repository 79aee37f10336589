/** The memory that is reserved for one list while the list is sent. */
export interface Reservation {
  /** Reserves more bytes for reading ahead. Returns false if too little memory is left. */
  grow(bytes: number): boolean;
  /** Frees some of the reserved bytes. */
  shrink(bytes: number): void;
  /** Records that the client has read a piece of the list. */
  progressed(): void;
  /** Frees the reserved memory. */
  release(): void;
}

/** Limits the memory of the lists that an isolate sends at the same time. */
export class ListsUnderWay {
  readonly #maxBytes: number;
  readonly #stallMs: number;
  readonly #entries = new Set<{ bytes: number; progressedMs: number }>();

  /** @param stallMs a list counts as ended if its client reads nothing for this long. */
  constructor(maxBytes: number, stallMs: number) {
    this.#maxBytes = maxBytes;
    this.#stallMs = stallMs;
  }

  /** The memory that is reserved for all lists, in bytes. */
  get bytes(): number {
    return this.#entries.values().reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Reserves memory for a list. Returns `null` if too little memory is left. A list that is alone
   * may need more than `maxBytes`.
   */
  reserve(bytes: number): Reservation | null {
    this.#dropStalled();
    if (this.#entries.size > 0 && this.bytes + bytes > this.#maxBytes) return null;
    const entry = { bytes, progressedMs: Date.now() };
    this.#entries.add(entry);
    return {
      grow: (more) => {
        // Reading ahead uses at most half of the memory, so that other lists can begin.
        if (this.bytes + more > this.#maxBytes / 2) return false;
        entry.bytes += more;
        return true;
      },
      shrink: (fewer) => void (entry.bytes -= fewer),
      progressed: () => void (entry.progressedMs = Date.now()),
      release: () => void this.#entries.delete(entry),
    };
  }

  /**
   * Frees the memory of stalled lists, because a request whose client disconnects may end without
   * calling `release`.
   */
  #dropStalled(): void {
    const nowMs = Date.now();
    for (const entry of this.#entries) {
      if (nowMs - entry.progressedMs > this.#stallMs) this.#entries.delete(entry);
    }
  }
}
