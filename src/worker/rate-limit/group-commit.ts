/**
 * Lets the requests of a Durable Object share writes. One write is on its way to the disk at a time,
 * and everything that changes meanwhile waits for the next write. A request so waits for up to two
 * writes, but a busy object needs far fewer of them.
 */
export class GroupCommit {
  readonly #write: () => void;
  readonly #sync: () => Promise<void>;
  #underWay: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  /** True if the last write failed, so that the memory is ahead of the disk. */
  #hasFailed = false;

  /**
   * @param write stores everything that has changed so far.
   * @param sync resolves when everything stored so far is on the disk.
   */
  constructor(write: () => void, sync: () => Promise<void>) {
    this.#write = write;
    this.#sync = sync;
  }

  /** Stores everything changed so far. Resolves when the changes are on the disk; rejects if the write fails. */
  commit(): Promise<void> {
    if (this.#underWay === null) return this.#begin();
    const begin = () => this.#begin();
    this.#next ??= this.#underWay.then(begin, begin);
    return this.#next;
  }

  /**
   * Resolves when everything committed so far is on the disk. Returns `null` if it already is. If
   * the last write failed, writes again.
   */
  settle(): Promise<void> | null {
    if (this.#next !== null) return this.#next;
    return this.#hasFailed ? this.commit() : this.#underWay;
  }

  #begin(): Promise<void> {
    this.#next = null;
    this.#underWay = this.#store().finally(() => {
      // If a next write waits, it begins in a moment, and no other write may begin before it.
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
