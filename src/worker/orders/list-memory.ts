import type { Manifest } from "./list-database.ts";

/** Limits on the memory and queries for the lists that an isolate sends. Tests use smaller values. */
export const LIST_SIZES = {
  /** How many snapshot queries may run at the same time. Further requests share the next. */
  concurrency: 2,
  /** How many segments may be read with the manifest. If memory lacks more, only one is read. */
  missingWithManifest: 16,
  /** How many segments a query that reads ahead may have. */
  groupSegments: 4,
  /** How many groups a list may read ahead: Cloudflare allows a request six connections. */
  groupsAhead: 6,
  /** How many queries a list may need if it reads nothing ahead: D1 allows a request 1,000. */
  maxQueries: 900,
  /** How many segments a list may have: `maxQueries` groups. */
  maxSegments: 3_600,
  /** The bytes of shorthand of a list that is sent in one piece and needs no place. */
  shortBytes: 256 * 1_024,
  /** The bytes of shorthand in a piece of a longer list. */
  pieceBytes: 64 * 1_024,
  /** The memory of a piece: its JSON is as long as the shorthand of this many of the longest orders. */
  pieceOrders: 1_536,
  /** How many orders all lists under way may hold: 40 MB if all of them are as long as possible. */
  heldOrders: 440_000,
  /** A list whose client has taken nothing for this long gives its place to a list without one. */
  stallMs: 60_000,
  /** How often a list renews its lease, for which housekeeping keeps former states: for a day. */
  leaseMs: 6 * 3_600_000,
};

export type ListSizes = Readonly<typeof LIST_SIZES>;

/** The memory for the segments of the newest manifest: enough for a million ordinary orders. */
export const MEMORY_BYTES = 48 * 2 ** 20;

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
