import { withDeadline } from "../deadline.ts";
import type { ListSizes } from "./list-sizes.ts";

/** A list on its way to a client, as `ListPlaces` counts it. */
export interface CountedList {
  readonly keyId: string;
  /** The bytes that only this list keeps in memory, without those that it has read ahead. */
  readonly alone: number;
  /** The bytes that it has read ahead. It can read them again. */
  readonly ahead: number;
  /** When the client last took a piece of the list, or the service last made the client wait. */
  takenMs: number;
  /** Forgets what was read ahead, and from now on reads nothing ahead. */
  forgetAhead(): void;
  /** Ends the list, because another one needs its place. */
  cutOff(): void;
}

/** A list that waits for a place. */
interface Waiting {
  readonly list: CountedList;
  readonly bytes: number;
  readonly sinceMs: number;
  readonly wake: () => void;
}

/** How often a waiting request looks after its place. */
const LOOK_MS = 1_000;

type PlaceSizes = Pick<ListSizes, "placeBytes" | "lineMs" | "patienceMs" | "stallMs">;

/**
 * Bounds the bytes that lists hold alone. A list that is sent from memory holds none and needs no
 * place. A list that needs bytes of its own waits in line for a place. The rule:
 *
 * 1. A key without a list comes first. Others follow in the sequence in which they came.
 * 2. If there is no room, lists forget what they have read ahead.
 * 3. Then stalled lists make room, if their key has others or it is the key of the waiting list.
 * 4. For a key without a list, the slowest list of the key that holds most lists, at least two, gives
 *    up its place; after these, a key's only list that is stalled. This happens only after a moment
 *    (`patienceMs`), in which lists that are read quickly end by themselves.
 *
 * So a key's only list is cut off only if it is stalled and another key has none. No list is cut off
 * in vain.
 */
export class ListPlaces {
  readonly #sizes: PlaceSizes;
  readonly #lists = new Set<CountedList>();
  /** The bytes of each place. */
  readonly #places = new Map<CountedList, number>();
  readonly #line = new Set<Waiting>();
  #servedMs = -Infinity;

  constructor(sizes: PlaceSizes) {
    this.#sizes = sizes;
  }

  /** The bytes that lists hold alone, or may hold in their places. */
  get held(): number {
    let sum = 0;
    for (const list of this.#lists) sum += this.#heldBy(list);
    return sum;
  }

  /** The bytes by which lists hold more than all places. Memory has so much less room. */
  get overdraft(): number {
    return Math.max(0, this.held - this.#sizes.placeBytes);
  }

  /** Counts a list that has begun, with or without a place. */
  begin(list: CountedList): void {
    this.#lists.add(list);
  }

  end(list: CountedList): void {
    this.#lists.delete(list);
    this.#places.delete(list);
    for (const waiting of this.#line) if (waiting.list === list) this.#leave(waiting);
    this.serve(Date.now());
  }

  hasPlace(list: CountedList): boolean {
    return this.#places.has(list);
  }

  /**
   * Waits for a place of this size, for `lineMs` at most; a list that has begun waits until it ends.
   * Returns whether the list has a place.
   */
  async wait(list: CountedList, bytes: number): Promise<boolean> {
    const hasBegun = this.#lists.has(list);
    const woken = Promise.withResolvers<void>();
    const nowMs = Date.now();
    const waiting = { list, bytes, sinceMs: nowMs, wake: woken.resolve };
    list.takenMs = nowMs;
    this.#line.add(waiting);
    this.serve(nowMs);
    while (this.#line.has(waiting)) {
      const waitedMs = Date.now() - waiting.sinceMs;
      if (!hasBegun && waitedMs >= this.#sizes.lineMs) this.#line.delete(waiting);
      else {
        // Wakes by itself, because the request that frees a place may not reach this one.
        const pauseMs = hasBegun ? LOOK_MS : Math.min(LOOK_MS, this.#sizes.lineMs - waitedMs);
        await withDeadline(woken.promise, pauseMs).catch(() => undefined);
        // The client waits for the service, and the request is alive.
        list.takenMs = Date.now();
        if (list.takenMs - this.#servedMs >= LOOK_MS / 4) this.serve(list.takenMs);
      }
    }
    return this.#places.has(list);
  }

  /** Returns whether a list may read this much ahead. Takes no room from a list that waits. */
  allowsAhead(bytes: number): boolean {
    return this.#line.size === 0 && this.held + bytes <= this.#sizes.placeBytes;
  }

  /** Gives places to the lists in the line, as the rule allows at this moment. */
  serve(nowMs: number): void {
    if (this.#line.size === 0) return;
    this.#servedMs = nowMs;
    for (const waiting of this.#line) {
      // The platform has ended its request.
      if (nowMs - waiting.list.takenMs > 3 * LOOK_MS) this.#line.delete(waiting);
    }
    const moving = new Map<string, number>();
    const isMoving = (list: CountedList) => this.#lists.has(list) && !this.#isStalled(list, nowMs);
    const count = ({ keyId }: CountedList) => void moving.set(keyId, (moving.get(keyId) ?? 0) + 1);
    for (const list of this.#lists) {
      // A clock that was set back must not keep a list alive.
      list.takenMs = Math.min(list.takenMs, nowMs);
      if (isMoving(list)) count(list);
    }
    const isNeedy = ({ list }: Waiting) => (moving.get(list.keyId) ?? 0) === Number(isMoving(list));
    const line = [...this.#line];
    for (const waiting of [...line.filter(isNeedy), ...line.filter((one) => !isNeedy(one))]) {
      const { list } = waiting;
      // Its key may have received a place in this loop.
      if (!this.#makeRoom(waiting, isNeedy(waiting), nowMs)) return;
      if (!isMoving(list)) count(list);
      this.#places.set(list, waiting.bytes);
      this.#lists.add(list);
      list.takenMs = nowMs;
      this.#leave(waiting);
    }
  }

  #leave(waiting: Waiting): void {
    this.#line.delete(waiting);
    waiting.wake();
  }

  #heldBy(list: CountedList): number {
    return Math.max(list.alone, this.#places.get(list) ?? 0) + list.ahead;
  }

  #isStalled({ takenMs }: CountedList, nowMs: number): boolean {
    return nowMs - takenMs >= this.#sizes.stallMs;
  }

  #makeRoom({ list, bytes, sinceMs }: Waiting, isNeedy: boolean, nowMs: number): boolean {
    const fits = (freed = 0) => this.held - freed + bytes <= this.#sizes.placeBytes;
    if (fits()) return true;
    const byAhead = [...this.#lists].toSorted((one, other) => other.ahead - one.ahead);
    for (const one of byAhead) {
      if (one.ahead > 0) one.forgetAhead();
      if (fits()) return true;
    }
    const victims: CountedList[] = [];
    let freed = 0;
    for (const victim of this.#victims(
      list,
      isNeedy && nowMs - sinceMs >= this.#sizes.patienceMs,
      nowMs,
    )) {
      victims.push(victim);
      freed += this.#heldBy(victim);
      if (!fits(freed)) continue;
      for (const one of victims) {
        this.#lists.delete(one);
        this.#places.delete(one);
        one.cutOff();
      }
      return true;
    }
    return false;
  }

  /** The lists that may be cut off for a list, the first ones first. */
  *#victims(list: CountedList, isUrgent: boolean, nowMs: number): Generator<CountedList, void> {
    const slowestFirst = [...this.#lists]
      .filter((one) => one !== list && this.#heldBy(one) > 0)
      .toSorted((one, other) => one.takenMs - other.takenMs);
    const left = new Set(slowestFirst);
    const countOf = (keyId: string) =>
      left
        .values()
        .filter((one) => one.keyId === keyId)
        .toArray().length;
    for (const one of slowestFirst) {
      if (!this.#isStalled(one, nowMs)) break;
      if (one.keyId !== list.keyId && countOf(one.keyId) < 2) continue;
      left.delete(one);
      yield one;
    }
    if (!isUrgent) return;
    for (;;) {
      const counts = new Map<string, number>();
      for (const { keyId } of left) counts.set(keyId, (counts.get(keyId) ?? 0) + 1);
      const most = Math.max(0, ...counts.values());
      if (most < 2) break;
      const victim = left.values().find(({ keyId }) => counts.get(keyId) === most);
      if (victim === undefined) break;
      left.delete(victim);
      yield victim;
    }
    yield* slowestFirst.filter((one) => left.has(one) && this.#isStalled(one, nowMs));
  }
}
