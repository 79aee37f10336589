/** The memory of one list under way. */
interface Reservation {
  /** The client took a piece of the list. */
  progressed(): void;
  /** Returns the memory. */
  release(): void;
}

interface Entry {
  readonly bytes: number;
  progressedMs: number;
}

/**
 * Bounds the memory of the lists that an isolate sends at the same time. Counts reservations, which
 * are estimates.
 */
export class ListsUnderWay {
  readonly #maxBytes: number;
  readonly #stallMs: number;
  readonly #entries = new Set<Entry>();

  /** @param stallMs a list that nobody reads for this long counts as ended. */
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

  /** Drops lists whose client has disconnected: such a request may end without a call of `release`. */
  #dropStalled(): void {
    const nowMs = Date.now();
    for (const entry of this.#entries) {
      if (nowMs - entry.progressedMs > this.#stallMs) this.#entries.delete(entry);
    }
  }
}
