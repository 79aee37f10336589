import { type Announcement, Pacer } from "./pacer.ts";
import type { Limits } from "./rate-limit-headers.ts";
import { sleep } from "./sleep.ts";

/** Delays paced requests of a client until its limits have room. */
export class Gate {
  readonly pacer = new Pacer();
  /** What the last answer of the service said; `null` before the first. */
  limits: Limits | null = null;
  #wakers = new Set<() => void>();

  /**
   * Waits for the turn of a paced request, then counts the request as sent.
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

  /** Takes the answer to a request that entered; `null` if no answer arrived. */
  leave(announcement: Announcement | null): void {
    this.pacer.end(announcement, performance.now());
    // A proxy's answer says nothing about the limits.
    if (announcement !== null && announcement.windows.length > 0) {
      this.limits = { ...announcement, answeredAt: new Date() };
    }
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
