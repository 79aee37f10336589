/**
 * Lets the requests of a Durable Object share writes to disk. Only one write runs at a time, and
 * requests that arrive during it share the next one. So a request waits for up to two writes.
 */
export class GroupCommit {
  readonly #write: () => void;
  readonly #sync: () => Promise<void>;
  #underWay: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  /** True if the last write failed, so the latest changes are in memory but not on disk. */
  #hasFailed = false;

  /** @param sync resolves when everything that `write` has written so far is on disk. */
  constructor(write: () => void, sync: () => Promise<void>) {
    this.#write = write;
    this.#sync = sync;
  }

  /** Stores all changes so far. Resolves when they are on disk; rejects if the write fails. */
  commit(): Promise<void> {
    if (this.#underWay === null) return this.#begin();
    const begin = () => this.#begin();
    this.#next ??= this.#underWay.then(begin, begin);
    return this.#next;
  }

  /** Waits for pending writes, or repeats a failed write. `null` if everything is on disk. */
  settle(): Promise<void> | null {
    if (this.#next !== null) return this.#next;
    return this.#hasFailed ? this.commit() : this.#underWay;
  }

  #begin(): Promise<void> {
    this.#next = null;
    this.#underWay = this.#store().finally(() => {
      // While `#next` waits, keep `#underWay` set, so that `commit` does not begin another write.
      if (this.#next === null) this.#underWay = null;
    });
    return this.#underWay;
  }

  async #store(): Promise<void> {
    this.#hasFailed = false;
    try {
      this.#write();
      await this.#sync();
    } catch (error) {
      this.#hasFailed = true;
      throw error;
    }
  }
}
