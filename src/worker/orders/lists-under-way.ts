/** The memory in bytes that is reserved for one list while the list is sent. */
export interface Reservation {
  /** Reserves more bytes for reading ahead. Returns false if too little memory is left. */
  grow(bytes: number): boolean;
  shrink(bytes: number): void;
  /** Records that the client has read a piece of the list. */
  progressed(): void;
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

  /** Returns `null` if too little memory is left and another list is being sent. */
  reserve(bytes: number): Reservation | null {
    const nowMs = Date.now();
    // The request of a client that has disconnected may end without calling `release`.
    for (const stalled of this.#entries) {
      if (nowMs - stalled.progressedMs > this.#stallMs) this.#entries.delete(stalled);
    }
    if (this.#entries.size > 0 && this.bytes + bytes > this.#maxBytes) return null;
    const entry = { bytes, progressedMs: nowMs };
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
}
