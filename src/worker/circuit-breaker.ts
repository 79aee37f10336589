import QuickLRU from "quick-lru";

/** Pause after a failure. */
const OPEN_MS = 1_000;

/** A time without calls, in Unix milliseconds. */
interface Pause {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Stops calls to a part that has just failed, so that callers do not wait for it one after another.
 * After a second one caller probes the part. Other callers do without the part until the probe
 * succeeds, even if the part recovers earlier. Pure: the time is a parameter.
 */
export class CircuitBreaker {
  readonly #pauses: QuickLRU<string, Pause>;
  readonly #probeMs: number;

  /**
   * @param size failing parts to remember. A forgotten part is called as if it had not failed.
   * @param probeMs milliseconds after which a probe without an outcome counts as lost.
   */
  constructor({ size, probeMs }: { size: number; probeMs: number }) {
    this.#pauses = new QuickLRU({ maxSize: size });
    this.#probeMs = probeMs;
  }

  /** Returns whether to call the part `name` now. The caller must then report the outcome. */
  allows(name: string, nowMs: number): boolean {
    const pause = this.#pauses.get(name);
    if (pause === undefined) return true;
    // The pause is also over if the clock went back to before it began.
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
