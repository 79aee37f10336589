import QuickLRU from "quick-lru";

/** After a failure, nothing is called for this long. */
const OPEN_MS = 1_000;

/** Unix milliseconds between which nothing is called. */
interface Pause {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Spares callers from waiting, one after another, for something that has just failed. After a
 * failure nothing is called for a second. Then one caller probes, and the others go on without it
 * until the probe succeeds. Pure: the time is a parameter.
 */
export class CircuitBreaker {
  readonly #pauses: QuickLRU<string, Pause>;
  readonly #probeMs: number;

  /**
   * @param size failing names to remember; more are forgotten, and called as if they had not failed.
   * @param probeMs milliseconds after which a probe without an outcome counts as lost.
   */
  constructor({ size, probeMs }: { size: number; probeMs: number }) {
    this.#pauses = new QuickLRU({ maxSize: size });
    this.#probeMs = probeMs;
  }

  /** Whether to call `name` now. A caller that is let through must report the outcome. */
  allows(name: string, nowMs: number): boolean {
    const pause = this.#pauses.get(name);
    if (pause === undefined) return true;
    // A pause that lies in the future is over too: the clock went back.
    if (nowMs >= pause.fromMs && nowMs < pause.untilMs) return false;
    this.#pauses.set(name, { fromMs: nowMs, untilMs: nowMs + this.#probeMs });
    return true;
  }

  failed(name: string, nowMs: number): void {
    this.#pauses.set(name, { fromMs: nowMs, untilMs: nowMs + OPEN_MS });
  }

  succeeded(name: string): void {
    this.#pauses.delete(name);
  }
}
