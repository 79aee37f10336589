import { type LogEvent, logEvent } from "./log.ts";

/** An outage ends this long after its last failure, so that an intermittent one is logged once. */
const QUIET_MS = 10_000;

/**
 * The state of a part that the isolate depends on. Logs one line when the part begins to fail and
 * one when it answers again, however many requests are affected.
 */
export class Outage {
  readonly #began: string;
  readonly #ended: string;
  /** Unix time in milliseconds of the first failure; `null` if there is no outage. */
  #sinceMs: number | null = null;
  #lastMs = 0;
  #failures = 0;

  /** @param events the names of the two log events. */
  constructor(events: { readonly began: string; readonly ended: string }) {
    this.#began = events.began;
    this.#ended = events.ended;
  }

  /**
   * Notes a failure.
   *
   * @param details logged if this failure begins the outage.
   */
  failed(details: Omit<LogEvent, "event">): void {
    this.#lastMs = Date.now();
    this.#failures += 1;
    if (this.#sinceMs !== null) return;
    this.#sinceMs = this.#lastMs;
    logEvent({ event: this.#began, ...details });
  }

  /** Notes an answer. */
  answered(): void {
    if (this.#sinceMs === null) return;
    const quietMs = Date.now() - this.#lastMs;
    if (quietMs >= 0 && quietMs < QUIET_MS) return;
    const seconds = Math.round((this.#lastMs - this.#sinceMs) / 1_000);
    logEvent({ event: this.#ended, failures: this.#failures, seconds });
    this.#sinceMs = null;
    this.#failures = 0;
  }
}
