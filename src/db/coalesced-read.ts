import { withDeadline } from "../deadline.ts";
import { DatabaseUnavailableError } from "./availability.ts";

/** What a request is told that waits: how another's reading has ended, or `null` where it is to read itself. */
type Turn<T> = (() => T) | null;

/** How requests may read. */
export interface CoalescedReadOptions {
  /** How many may read at once, each for itself. */
  readonly concurrency: number;
  /** Within which a reading ends, in milliseconds: a request that waits may wait for two. */
  readonly timeoutMs: number;
}

/**
 * One value that many requests of an isolate read from the database. While as many are reading as
 * may, the others wait until one of them is done; then one reads for all that wait. So a reading
 * that a request is given has always begun after the request came: it is as fresh as its own.
 *
 * Requests settle each other's promises, as workerd allows, but none awaits a promise of another,
 * which would never settle if the client of the other one left.
 */
export class CoalescedRead<T> {
  readonly #concurrency: number;
  readonly #timeoutMs: number;
  readonly #underWay = new Set<{ readonly begunMs: number }>();
  #waiting = new Set<(turn: Turn<T>) => void>();

  constructor({ concurrency, timeoutMs }: CoalescedReadOptions) {
    this.#concurrency = concurrency;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * @param query reads the value.
   * @param waitUntil keeps the request at work for the others, should its client leave.
   * @throws what `query` rejects with, of this request or of the one that has read for it.
   * @throws {DatabaseUnavailableError} where the others took too long.
   */
  read(query: () => Promise<T>, waitUntil: (promise: Promise<unknown>) => void): Promise<T> {
    const reading = this.#hasRoom() ? this.#query(query) : this.#wait(query);
    waitUntil(reading.catch(() => undefined));
    return reading;
  }

  #hasRoom(): boolean {
    if (this.#underWay.size < this.#concurrency) return true;
    // A request that was ended from outside never says that its reading is over.
    const nowMs = Date.now();
    for (const reading of this.#underWay) {
      if (nowMs - reading.begunMs > this.#timeoutMs) this.#underWay.delete(reading);
    }
    return this.#underWay.size < this.#concurrency;
  }

  async #query(query: () => Promise<T>): Promise<T> {
    const reading = { begunMs: Date.now() };
    this.#underWay.add(reading);
    const sharing = this.#waiting;
    this.#waiting = new Set();
    const turn = await query().then(
      (value) => () => value,
      (error: unknown) => () => {
        throw error;
      },
    );
    for (const tell of sharing) tell(turn);
    if (this.#underWay.delete(reading)) this.#callNext();
    return turn();
  }

  async #wait(query: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<Turn<T>>();
    this.#waiting.add(resolve);
    const turn = await withDeadline(promise, 2 * this.#timeoutMs).catch((cause: unknown) => {
      this.#waiting.delete(resolve);
      throw new DatabaseUnavailableError(cause);
    });
    return turn === null ? this.#query(query) : turn();
  }

  #callNext(): void {
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    next(null);
  }
}
