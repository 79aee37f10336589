import type { Limits, WindowQuota } from "./rate-limit-headers.ts";

/** A window as this client knows it. Times are milliseconds of a monotonic clock. */
interface OpenWindow extends WindowQuota {
  /** Not before the true end, because the service rounds up and its answer takes time. */
  readonly endsMs: number;
}

/** When a request may be sent: now, at a later time, or after the next answer. */
export type Turn =
  | { readonly kind: "now" }
  | { readonly kind: "at"; readonly timeMs: number }
  | { readonly kind: "after_answer" };

/** The rate-limit headers of an answer. */
export type Announcement = Omit<Limits, "answeredAt">;

/** The least time that the limits demand for a number of requests. */
export interface Forecast {
  /** Milliseconds until the last of the windows that the requests need. */
  readonly waitMs: number;
  /** The requests that are left for this last window. */
  readonly lastRequests: number;
}

/**
 * Keeps a client within its limits, by the rate-limit headers of the answers. Pure: `nowMs` is the
 * only clock.
 *
 * The pacer counts the requests under way, so that together they never exceed a window. While it
 * does not know an open window, it sends a single request and learns the window from the answer.
 */
export class Pacer {
  readonly #windows = new Map<string, OpenWindow>();
  #underWay = 0;
  /** The end of the last `Retry-After`. */
  #heldUntilMs = 0;
  /** All pauses together, of which the last may end in the future. */
  #pausedMs = 0;
  #pauseEndsMs = 0;

  /** Says when the next request may be sent. */
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
   * Takes the answer to a request. `null`: no answer arrived, and the service may have counted it.
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

  /** Forecasts that many more requests. */
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

  /** Returns for how long, until now, the limits let no request begin. */
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
    // Answers may overtake each other: this one describes an earlier window.
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
