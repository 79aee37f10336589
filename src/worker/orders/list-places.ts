import { withDeadline } from "../deadline.ts";
import type { ListSizes } from "./list-sizes.ts";

/** A list on its way to a client, as `ListPlaces` counts it. */
export interface CountedList {
  readonly keyId: string;
  /** The bytes that the list needs at least while memory has no room for its segments. */
  readonly placeBytes: number;
  /** The bytes that only this list keeps in memory. */
  readonly alone: number;
  /** When the client last took a piece of the list, or the service last made the client wait. */
  takenMs: number;
  /** Forgets what the list has read beyond its place. It can read this again. */
  forgetSpare(): void;
  /** Ends the list, because another one needs its place. */
  cutOff(): void;
}

/** How often a waiting request looks after its place. */
const LOOK_MS = 1_000;

/**
 * Bounds the bytes that lists hold alone. A list that is sent from memory holds none and needs no
 * place. A list that needs bytes of its own waits in line for a place. The rule:
 *
 * 1. A key without a list comes first. Others follow in the sequence in which they came.
 * 2. If there is no room, lists forget what they have read beyond their places.
 * 3. Then stalled lists make room, if their key has others or it is the key of the waiting list.
 * 4. For a key without a list, the slowest list of the key that holds most lists, at least two, gives
 *    up its place; after these, a key's only list that is stalled. This happens only after a moment
 *    (`patienceMs`), in which lists that are read quickly end by themselves.
 *
 * So a key's only list is cut off only if it is stalled and another key has none. No list is cut off
 * in vain.
 */
export class ListPlaces {
  readonly #sizes: ListSizes;
  /** The lists under way, and the bytes of their places. */
  readonly #lists = new Map<CountedList, number>();
  /** The lists that wait for a place. */
  readonly #line = new Map<CountedList, { readonly sinceMs: number; readonly wake: () => void }>();
  #servedMs = -Infinity;

  constructor(sizes: ListSizes) {
    this.#sizes = sizes;
  }

  /** The bytes that lists hold alone, or may hold in their places. */
  get held(): number {
    return this.#lists.keys().reduce((sum, list) => sum + this.#heldBy(list), 0);
  }

  /** Counts a list that has begun, with or without a place. */
  begin(list: CountedList): void {
    this.#lists.set(list, this.#lists.get(list) ?? 0);
  }

  end(list: CountedList): void {
    this.#lists.delete(list);
    this.#leave(list);
    this.#serve();
  }

  hasPlace(list: CountedList): boolean {
    return (this.#lists.get(list) ?? 0) > 0;
  }

  /**
   * Waits for a place if the list has none: for `lineMs` at most, or until a list that has begun
   * ends. Returns whether the list has a place.
   */
  async wait(list: CountedList): Promise<boolean> {
    if (this.hasPlace(list)) return true;
    const { promise, resolve } = Promise.withResolvers<void>();
    const sinceMs = (list.takenMs = Date.now());
    const endMs = this.#lists.has(list) ? Infinity : sinceMs + this.#sizes.lineMs;
    this.#line.set(list, { sinceMs, wake: resolve });
    this.#serve();
    while (this.#line.has(list) && list.takenMs < endMs) {
      // Wakes by itself, because the request that frees a place may not reach this one.
      const waitMs = Math.min(LOOK_MS, endMs - list.takenMs);
      await withDeadline(promise, waitMs).catch(() => undefined);
      // The client waits for the service, and the request is alive.
      list.takenMs = Date.now();
      if (list.takenMs - this.#servedMs >= LOOK_MS / 4) this.#serve();
    }
    this.#line.delete(list);
    return this.hasPlace(list);
  }

  /** Returns whether a list may read this much at once. Takes no room from a list that waits. */
  allowsSpare(bytes: number): boolean {
    return this.#line.size === 0 && this.held + bytes <= this.#sizes.placeBytes;
  }

  /** Gives places to the lists in the line, as the rule allows at this moment. */
  #serve(): void {
    const nowMs = (this.#servedMs = Date.now());
    for (const list of this.#line.keys()) {
      // The platform has ended its request.
      if (nowMs - list.takenMs > 3 * LOOK_MS) this.#line.delete(list);
    }
    // A clock that was set back must not keep a list alive.
    for (const list of this.#lists.keys()) list.takenMs = Math.min(list.takenMs, nowMs);
    for (;;) {
      const moving = this.#lists.keys().filter((one) => !this.#isStalled(one));
      const byKey = Map.groupBy(moving, ({ keyId }) => keyId);
      const isNeedy = (list: CountedList) =>
        (byKey.get(list.keyId)?.length ?? 0) === Number(this.#lists.has(list));
      const [first] = this.#line.keys();
      const list = this.#line.keys().find(isNeedy) ?? first;
      if (list === undefined || !this.#makeRoom(list, isNeedy(list))) return;
      this.#lists.set(list, list.placeBytes);
      list.takenMs = nowMs;
      this.#leave(list);
    }
  }

  #leave(list: CountedList): void {
    this.#line.get(list)?.wake();
    this.#line.delete(list);
  }

  #heldBy(list: CountedList): number {
    return Math.max(list.alone, this.#lists.get(list) ?? 0);
  }

  #isStalled({ takenMs }: CountedList): boolean {
    return this.#servedMs - takenMs >= this.#sizes.stallMs;
  }

  #makeRoom(list: CountedList, isNeedy: boolean): boolean {
    const missing = () => this.held + list.placeBytes - this.#sizes.placeBytes;
    for (const [one, placeBytes] of this.#lists) {
      if (one.alone > placeBytes && missing() > 0) one.forgetSpare();
    }
    const { sinceMs = Infinity } = this.#line.get(list) ?? {};
    const isUrgent = isNeedy && this.#servedMs - sinceMs >= this.#sizes.patienceMs;
    const victims = new Set<CountedList>();
    for (let bytes = missing(); bytes > 0;) {
      const victim = this.#victim(list, isUrgent, victims);
      if (victim === undefined) return false;
      victims.add(victim);
      bytes -= this.#heldBy(victim);
    }
    for (const victim of victims) {
      this.#lists.delete(victim);
      victim.cutOff();
    }
    return true;
  }

  /** The list that is cut off next for a list, after these victims. */
  #victim(list: CountedList, isUrgent: boolean, victims: ReadonlySet<CountedList>) {
    const slowestFirst = [...this.#lists.keys()]
      .filter((one) => one !== list && !victims.has(one) && this.#heldBy(one) > 0)
      .toSorted((one, other) => one.takenMs - other.takenMs);
    const byKey = Map.groupBy(slowestFirst, ({ keyId }) => keyId);
    const countOf = ({ keyId }: CountedList) => byKey.get(keyId)?.length ?? 0;
    const most = Math.max(2, ...slowestFirst.map(countOf));
    const stalled = slowestFirst.filter((one) => this.#isStalled(one));
    const spared = stalled.find((one) => one.keyId === list.keyId || countOf(one) > 1);
    if (spared !== undefined || !isUrgent) return spared;
    return slowestFirst.find((one) => countOf(one) === most) ?? stalled[0];
  }
}
