import { TimeoutError } from "./errors.ts";

/** Aborts a request when the caller's signal aborts, or when no data arrives within a timeout. */
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
   * Returns the result of `work`. A timeout or an abort ends the wait, even if `work` ignores the
   * signal.
   *
   * @throws {TimeoutError} after the timeout, or the caller's reason if the caller aborts.
   */
  async within<T>(work: () => Promise<T>): Promise<T> {
    const { signal } = this.#controller;
    signal.throwIfAborted();
    const timeout = setTimeout(() => {
      this.#controller.abort(new TimeoutError(`Nothing arrived within ${this.#timeoutMs} ms.`));
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

  /** Stops listening to the caller's signal. */
  release(): void {
    this.#caller?.removeEventListener("abort", this.#follow);
  }

  abort(): void {
    this.release();
    this.#controller.abort();
  }
}
