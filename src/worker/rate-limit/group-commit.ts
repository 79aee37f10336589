/**
 * Lets the requests of a Durable Object share writes. One write is on its way to the disk at a time.
 * Everything that changes meanwhile goes to the disk with the next write.
 */
export class GroupCommit {
  readonly #write: () => void;
  readonly #sync: () => Promise<void>;
  #underWay: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  /** Whether the last write failed, so that the memory is ahead of the disk. */
  #hasFailed = false;

  /**
   * @param write stores everything that has changed so far.
   * @param sync resolves when everything stored so far is on the disk.
   */
  constructor(write: () => void, sync: () => Promise<void>) {
    this.#write = write;
    this.#sync = sync;
  }

  /** Stores what has changed until now. Resolves when it is on the disk, and rejects if it cannot be stored. */
  commit(): Promise<void> {
    if (this.#underWay === null) return this.#begin();
    const begin = () => this.#begin();
    this.#next ??= this.#underWay.then(begin, begin);
    return this.#next;
  }

  /**
   * Resolves when everything that `commit` was called for until now is on the disk; `null` if it is
   * already. Writes again what could not be stored.
   */
  settle(): Promise<void> | null {
    if (this.#next !== null) return this.#next;
    return this.#hasFailed ? this.commit() : this.#underWay;
  }

  #begin(): Promise<void> {
    this.#next = null;
    this.#underWay = this.#store().finally(() => {
      // Otherwise the next write begins in a moment, and no other one may come before it.
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
