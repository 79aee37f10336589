import QuickLRU from "quick-lru";

/** How long a part of the service is not called after it failed, in milliseconds. */
const OPEN_MS = 1_000;

/**
 * Stops calls to a part of the service that has just failed, so that callers do not wait for
 * timeouts one after another. One second after the failure, one caller probes the part; the others
 * do not call it until the probe succeeds. Reads no clock: the time is a parameter.
 */
export class CircuitBreaker {
  /** The start and end of each pause in Unix milliseconds, by the name of the paused part. */
  readonly #pauses: QuickLRU<string, { readonly fromMs: number; readonly untilMs: number }>;
  readonly #probeMs: number;

  /**
   * @param size the number of failing parts to remember. A forgotten part is called again.
   * @param probeMs milliseconds to wait for a probe's outcome. Then another caller may probe.
   */
  constructor({ size, probeMs }: { size: number; probeMs: number }) {
    this.#pauses = new QuickLRU({ maxSize: size });
    this.#probeMs = probeMs;
  }

  /** Returns whether to call the part `name` now. The caller must then report the outcome. */
  allows(name: string, nowMs: number): boolean {
    const pause = this.#pauses.get(name);
    if (pause === undefined) return true;
    // The pause is also over if the clock was set back to a time before the pause began.
    if (nowMs >= pause.fromMs && nowMs < pause.untilMs) return false;
    this.#pauses.set(name, { fromMs: nowMs, untilMs: nowMs + this.#probeMs });
    return true;
  }

  /** Begins a pause of a second. Never extends a pause that has already begun. */
  failed(name: string, nowMs: number): void {
    const { untilMs = Infinity } = this.#pauses.get(name) ?? {};
    this.#pauses.set(name, { fromMs: nowMs, untilMs: Math.min(untilMs, nowMs + OPEN_MS) });
  }

  succeeded(name: string): void {
    this.#pauses.delete(name);
  }
}
