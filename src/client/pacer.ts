import type { WindowQuota } from "./rate-limit-headers.ts";

/** A window as this client knows it. Times in milliseconds of a clock that never goes back. */
interface OpenWindow extends WindowQuota {
  /** No earlier than the true end, as the service rounds up and its answer takes time. */
  readonly endsMs: number;
}

/** Whether a request may be sent now, at a later time, or only after the next answer. */
export type Turn =
  | { readonly kind: "now" }
  | { readonly kind: "at"; readonly timeMs: number }
  | { readonly kind: "after_answer" };

/** What the service said beside an answer. */
export interface Announcement {
  readonly windows: readonly WindowQuota[];
  readonly retryAfterSeconds: number | null;
}

/**
 * Keeps a client within its limits, by what the service says of them. Pure: `nowMs` is the only clock.
 *
 * It counts what it sends itself, so that requests under way at the same time never overdraw a
 * window. Where it does not know a window that is open, one request goes alone to learn of it.
 */
export class Pacer {
  readonly #windows = new Map<string, OpenWindow>();
  #underWay = 0;
  /** No request before: the service said so by `Retry-After`. */
  #heldUntilMs = 0;

  /** When the next request may be sent. */
  turn(nowMs: number): Turn {
    if (nowMs < this.#heldUntilMs) return { kind: "at", timeMs: this.#heldUntilMs };
    const open = [...this.#windows.values()].filter(({ endsMs }) => nowMs < endsMs);
    const full = open.filter(({ remaining }) => remaining === 0);
    if (full.length > 0) return { kind: "at", timeMs: Math.max(...full.map((w) => w.endsMs)) };
    const isKnown = open.length > 0 && open.length === this.#windows.size;
    const room = isKnown ? Math.min(...open.map(({ remaining }) => remaining)) : 1;
    return this.#underWay < room ? { kind: "now" } : { kind: "after_answer" };
  }

  /** A request is being sent. */
  begin(): void {
    this.#underWay += 1;
  }

  /** A request was answered, or (`null`) ended without an answer: then it may have been counted. */
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
    }
    for (const window of windows) this.#learn(window, nowMs);
  }

  /** How long so many further requests take at least, in milliseconds. */
  durationMs(requests: number, nowMs: number): number {
    const durations = [...this.#windows.values()].map(
      ({ remaining, limit, lengthSeconds, endsMs }) => {
        const isOpen = nowMs < endsMs;
        const later = requests - (isOpen ? remaining : limit);
        if (later <= 0) return 0;
        const untilNextMs = isOpen ? endsMs - nowMs : lengthSeconds * 1_000;
        return untilNextMs + Math.floor((later - 1) / limit) * lengthSeconds * 1_000;
      },
    );
    return Math.max(0, this.#heldUntilMs - nowMs, ...durations);
  }

  #learn(told: WindowQuota, nowMs: number): void {
    const known = this.#windows.get(told.name);
    const endsMs = nowMs + told.resetSeconds * 1_000;
    const differenceMs = known === undefined ? Infinity : endsMs - known.endsMs;
    const halfLengthMs = told.lengthSeconds * 500;
    // Answers may overtake each other: this one describes a window that has ended.
    if (differenceMs < -halfLengthMs) return;
    const isSameWindow =
      known !== undefined && differenceMs <= halfLengthMs && nowMs < known.endsMs;
    this.#windows.set(told.name, {
      ...told,
      remaining: isSameWindow ? Math.min(told.remaining, known.remaining) : told.remaining,
      endsMs: isSameWindow ? Math.min(endsMs, known.endsMs) : endsMs,
    });
  }
}
