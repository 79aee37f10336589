/** What a list under way does for another list that needs its place. */
interface Holder {
  /** Forgets the orders that were read ahead, and from now on reads nothing ahead. */
  readonly forgetAhead: () => void;
  /** Ends the list. */
  readonly cutOff: () => void;
}

interface Entry extends Holder {
  readonly key: string;
  /** The orders that the list needs at any time, and those that it has read ahead. */
  readonly own: number;
  ahead: number;
  movedMs: number;
}

/** The place of a list under way. */
export interface Place {
  /** Takes room for orders that are read ahead. Returns false if too little is left. */
  readAhead(orders: number): boolean;
  /** Returns the room of orders that were read ahead and are sent. */
  sent(orders: number): void;
  /** Records that the client has taken a piece of the list. */
  moved(): void;
  end(): void;
}

/**
 * Limits how many orders the lists under way in an isolate hold. An order has a longest form, so
 * this limits their memory.
 *
 * A key may hold at most as many orders as it leaves free (the "dynamic threshold" of shared
 * buffers). So one key can hold half of them, and a second key half of the rest: whatever one key
 * does, a list of another key finds room.
 */
export class ListPlaces {
  readonly #maxOrders: number;
  readonly #stallMs: number;
  readonly #entries = new Set<Entry>();

  constructor({ heldOrders, stallMs }: { readonly heldOrders: number; readonly stallMs: number }) {
    this.#maxOrders = heldOrders;
    this.#stallMs = stallMs;
  }

  /** The orders that all lists hold. */
  get held(): number {
    return sumOf(this.#entries);
  }

  /**
   * Returns `null` if there is no room. Lists whose clients have taken nothing for `stallMs` make
   * room: first with what they have read ahead, then the longest-stalled one is cut off. A key that
   * holds more than others displaces only its own lists.
   */
  take(key: string, own: number, holder: Holder): Place | null {
    if (!this.#fits(key, own) && !this.#makeRoom(key, own)) return null;
    const entry: Entry = { key, own, ahead: 0, movedMs: Date.now(), ...holder };
    this.#entries.add(entry);
    return {
      readAhead: (orders) => {
        while (!this.#fits(key, orders)) if (!this.#forgetAhead(entry)) return false;
        entry.ahead += orders;
        return this.#entries.has(entry);
      },
      sent: (orders) => void (entry.ahead = Math.max(0, entry.ahead - orders)),
      moved: () => void (entry.movedMs = Date.now()),
      end: () => void this.#entries.delete(entry),
    };
  }

  #fits(key: string, orders: number, entries: ReadonlySet<Entry> = this.#entries): boolean {
    return heldBy(key, entries) + orders <= this.#maxOrders - sumOf(entries) - orders;
  }

  /** The lists whose clients have taken nothing for long, the longest-stalled one first. */
  #stalled(): Entry[] {
    const nowMs = Date.now();
    // A clock that was set back must not keep a list alive.
    for (const entry of this.#entries) entry.movedMs = Math.min(entry.movedMs, nowMs);
    return [...this.#entries]
      .filter(({ movedMs }) => nowMs - movedMs >= this.#stallMs)
      .toSorted((one, other) => one.movedMs - other.movedMs);
  }

  #forgetAhead(except?: Entry): boolean {
    const entry = this.#stalled().find((one) => one !== except && one.ahead > 0);
    entry?.forgetAhead();
    if (entry !== undefined) entry.ahead = 0;
    return entry !== undefined;
  }

  #makeRoom(key: string, own: number): boolean {
    while (this.#forgetAhead()) if (this.#fits(key, own)) return true;
    const needed = heldBy(key, this.#entries) + own;
    const kept = new Set(this.#entries);
    for (const stalled of this.#stalled()) {
      if (stalled.key !== key && heldBy(stalled.key, this.#entries) < needed) continue;
      kept.delete(stalled);
      if (!this.#fits(key, own, kept)) continue;
      for (const entry of [...this.#entries].filter((one) => !kept.has(one))) {
        this.#entries.delete(entry);
        entry.cutOff();
      }
      return true;
    }
    return false; // No list is cut off in vain.
  }
}

function heldBy(key: string, entries: ReadonlySet<Entry>): number {
  return sumOf(entries.values().filter((entry) => entry.key === key));
}

function sumOf(entries: Iterable<Entry>): number {
  let sum = 0;
  for (const { own, ahead } of entries) sum += own + ahead;
  return sum;
}
