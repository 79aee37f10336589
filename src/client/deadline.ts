import { TimeoutError } from "./errors.ts";

/** Ends a request when the caller aborts, or when nothing comes for too long. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timeoutMs: number;
  readonly #follow = (): void => this.#controller.abort(this.#caller?.reason);

  constructor(caller: AbortSignal | undefined, timeoutMs: number) {
    this.#caller = caller;
    this.#timeoutMs = timeoutMs;
    if (caller?.aborted) this.#follow();
    else caller?.addEventListener("abort", this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * Waits for `work`, whether it heeds the signal or not.
   *
   * @throws the reason of the caller's abort, or a TimeoutError.
   */
  async within<T>(work: () => Promise<T>): Promise<T> {
    const { signal } = this.#controller;
    signal.throwIfAborted();
    const timeout = setTimeout(() => {
      this.#controller.abort(new TimeoutError(`Nothing came within ${this.#timeoutMs} ms.`));
    }, this.#timeoutMs);
    let fail = (): void => undefined;
    const aborted = new Promise<never>((_, reject) => {
      fail = () => reject(signal.reason);
    });
    signal.addEventListener("abort", fail, { once: true });
    try {
      return await Promise.race([work(), aborted]);
    } finally {
      clearTimeout(timeout);
      signal.removeEventListener("abort", fail);
    }
  }

  /** No longer listens to the caller. */
  release(): void {
    this.#caller?.removeEventListener("abort", this.#follow);
  }

  /** Ends what is still under way. */
  abort(): void {
    this.release();
    this.#controller.abort();
  }
}
