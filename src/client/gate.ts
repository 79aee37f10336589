import { type Announcement, Pacer } from "./pacer.ts";
import type { Limits } from "./rate-limit-headers.ts";
import { sleep } from "./sleep.ts";

/**
 * Delays the requests of paced calls (option `pacing`, and `cancelOrders`) until the rate limits of
 * the key admit them.
 */
export class Gate {
  readonly pacer = new Pacer();
  /**
   * The limits in the last response with rate-limit headers; `null` before the first such response.
   */
  limits: Limits | null = null;
  #wakers = new Set<() => void>();

  /**
   * Counts a request as in flight. If `isPaced`, waits first until the rate limits admit the
   * request.
   *
   * @throws the signal's reason, as soon as the signal is aborted.
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

  /**
   * Records the rate-limit headers of a response and wakes waiting requests.
   *
   * @param announcement the parsed rate-limit headers; `null` if no response arrived.
   */
  leave(announcement: Announcement | null): void {
    this.pacer.end(announcement, performance.now());
    // Keeps the earlier limits if a response, such as a proxy's, has no rate-limit headers.
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
