import type { Limits, WindowQuota } from "./rate-limit-headers.ts";

/** A rate-limit window as this client knows it. Times are milliseconds of a monotonic clock. */
interface OpenWindow extends WindowQuota {
  /**
   * The end of the window as the client computes it from `resetSeconds`. This time is never before
   * the real end, because the service rounds `resetSeconds` up, and because the response takes time
   * to arrive.
   */
  readonly endsMs: number;
}

/** When a request may be sent: now, at a later time, or after the next response. */
export type Turn =
  | { readonly kind: "now" }
  | { readonly kind: "at"; readonly timeMs: number }
  | { readonly kind: "after_answer" };

/** The parsed rate-limit headers of a response. */
export type Announcement = Omit<Limits, "answeredAt">;

/** When the rate limits admit the last of several requests, which may need successive windows. */
export interface Forecast {
  /** The wait in milliseconds until the last of the needed windows admits requests. */
  readonly waitMs: number;
  /** The number of requests that are sent in the last of the needed windows. */
  readonly lastRequests: number;
}

/**
 * Decides when a client may send requests, from the rate-limit headers of earlier responses. The
 * pacer reads no clock: callers pass the current time as `nowMs`.
 *
 * The pacer counts the requests in flight, so that concurrent requests never exceed a limit
 * together. Before the first response and after the end of a window, the pacer admits only one
 * request at a time until a response describes the open windows.
 */
export class Pacer {
  readonly #windows = new Map<string, OpenWindow>();
  #underWay = 0;
  /** The time until which `Retry-After` forbids requests. */
  #heldUntilMs = 0;
  /**
   * The total time in which the limits admit no request, including the rest of the current pause,
   * which ends at `#pauseEndsMs`.
   */
  #pausedMs = 0;
  #pauseEndsMs = 0;

  /** Returns when the next request may be sent. */
  turn(nowMs: number): Turn {
    if (nowMs < this.#heldUntilMs) return this.#pause(nowMs, this.#heldUntilMs);
    const open = [...this.#windows.values()].filter(({ endsMs }) => nowMs < endsMs);
    const full = open.filter(({ remaining }) => remaining === 0);
    if (full.length > 0) return this.#pause(nowMs, Math.max(...full.map((w) => w.endsMs)));
    const isKnown = open.length > 0 && open.length === this.#windows.size;
    const room = isKnown ? Math.min(...open.map(({ remaining }) => remaining)) : 1;
    return this.#underWay < room ? { kind: "now" } : { kind: "after_answer" };
  }

  /** Counts a request that is about to be sent. */
  begin(): void {
    this.#underWay += 1;
  }

  /**
   * Records the end of a request and the rate-limit headers of the response.
   *
   * @param announcement `null` if no response arrived; the service may have counted the request.
   */
  end(announcement: Announcement | null, nowMs: number): void {
    this.#underWay -= 1;
    if (announcement === null) {
      for (const [name, window] of this.#windows) {
        this.#windows.set(name, { ...window, remaining: Math.max(0, window.remaining - 1) });
      }
      return;
    }
    const { windows, retryAfterSeconds } = announcement;
    if (retryAfterSeconds !== null) {
      this.#heldUntilMs = Math.max(this.#heldUntilMs, nowMs + retryAfterSeconds * 1_000);
      this.#pause(nowMs, this.#heldUntilMs);
    }
    for (const window of windows) this.#learn(window, nowMs);
  }

  /** Forecasts the earliest time at which the rate limits admit `requests` more requests. */
  forecast(requests: number, nowMs: number): Forecast {
    const heldMs = Math.max(0, this.#heldUntilMs - nowMs);
    let slowest: Forecast = { waitMs: heldMs, lastRequests: requests };
    for (const { remaining, limit, lengthSeconds, endsMs } of this.#windows.values()) {
      const isOpen = nowMs < endsMs;
      const later = requests - (isOpen ? remaining : limit);
      if (later <= 0) continue;
      const untilNextMs = isOpen ? endsMs - nowMs : lengthSeconds * 1_000;
      const fullWindows = Math.floor((later - 1) / limit);
      const waitMs = untilNextMs + fullWindows * lengthSeconds * 1_000;
      if (waitMs <= slowest.waitMs) continue;
      slowest = { waitMs, lastRequests: later - fullWindows * limit };
    }
    return slowest;
  }

  /** Returns the total time in milliseconds, until now, in which the limits admitted no request. */
  pausedMs(nowMs: number): number {
    return this.#pausedMs - Math.max(0, this.#pauseEndsMs - nowMs);
  }

  #pause(fromMs: number, untilMs: number): Turn {
    const newFromMs = Math.max(fromMs, this.#pauseEndsMs);
    if (untilMs > newFromMs) {
      this.#pausedMs += untilMs - newFromMs;
      this.#pauseEndsMs = untilMs;
    }
    return { kind: "at", timeMs: untilMs };
  }

  #learn(announced: WindowQuota, nowMs: number): void {
    const known = this.#windows.get(announced.name);
    const endsMs = nowMs + announced.resetSeconds * 1_000;
    const differenceMs = known === undefined ? Infinity : endsMs - known.endsMs;
    const halfLengthMs = announced.lengthSeconds * 500;
    // Ignores a response about an earlier window, because responses can arrive out of sequence.
    if (differenceMs < -halfLengthMs) return;
    const isSameWindow =
      known !== undefined && differenceMs <= halfLengthMs && nowMs < known.endsMs;
    this.#windows.set(announced.name, {
      ...announced,
      remaining: isSameWindow
        ? Math.min(announced.remaining, known.remaining)
        : announced.remaining,
      endsMs: isSameWindow ? Math.min(endsMs, known.endsMs) : endsMs,
    });
  }
}
