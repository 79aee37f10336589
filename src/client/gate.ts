import { type Announcement, Pacer } from "./pacer.ts";
import { sleep } from "./sleep.ts";

/** Lets the requests of one client pass when its limits have room for them. */
export class Gate {
  readonly pacer = new Pacer();
  #wakers = new Set<() => void>();

  /**
   * Notes that a request is being sent; where it is paced, waits for its turn before.
   *
   * @throws the signal's reason, as soon as it is aborted.
   */
  async enter(isPaced: boolean, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    while (isPaced) {
      const nowMs = performance.now();
      const turn = this.pacer.turn(nowMs);
      if (turn.kind === "now") break;
      if (turn.kind === "at") await sleep(turn.timeMs - nowMs, signal);
      else await this.#nextAnswer(signal);
    }
    this.pacer.begin();
  }

  /** Notes the answer to a request that entered, or `null` where none came. */
  leave(announcement: Announcement | null): void {
    this.pacer.end(announcement, performance.now());
    const wakers = this.#wakers;
    this.#wakers = new Set();
    for (const wake of wakers) wake();
  }

  #nextAnswer(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#wakers.delete(wake);
        reject(signal?.reason);
      };
      const wake = (): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      this.#wakers.add(wake);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }
}
