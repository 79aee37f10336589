/** The memory that is reserved for one list while the list is sent. */
interface Reservation {
  /** Records that the client has read a piece of the list. */
  progressed(): void;
  /** Frees the reserved memory. */
  release(): void;
}

interface Entry {
  readonly bytes: number;
  progressedMs: number;
}

/**
 * Limits the memory of the lists that an isolate sends at the same time. The memory of a list is
 * estimated when its sending begins.
 */
export class ListsUnderWay {
  readonly #maxBytes: number;
  readonly #stallMs: number;
  readonly #entries = new Set<Entry>();

  /**
   * @param stallMs a list counts as ended if its client reads nothing for this many milliseconds.
   */
  constructor(maxBytes: number, stallMs: number) {
    this.#maxBytes = maxBytes;
    this.#stallMs = stallMs;
  }

  /** Reserves memory for a list. Returns `null` if too little memory is left. */
  reserve(bytes: number): Reservation | null {
    this.#dropStalled();
    let reserved = 0;
    for (const entry of this.#entries) reserved += entry.bytes;
    // Refuse a list only while other lists are being sent: a single list may exceed `#maxBytes`.
    if (reserved > 0 && reserved + bytes > this.#maxBytes) return null;
    const entry = { bytes, progressedMs: Date.now() };
    this.#entries.add(entry);
    return {
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
