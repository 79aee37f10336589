import { type LogEvent, logEvent } from "./log.ts";

/** After the last failure an outage goes on for this long, so that one that comes and goes is one. */
const QUIET_MS = 10_000;

/**
 * Something that the isolate depends on and that may fail. Logs one line when it begins to fail and
 * one when it answers again, however many requests meet it.
 */
export class Outage {
  readonly #began: string;
  readonly #ended: string;
  /** Unix time in milliseconds; `null` while all is well. */
  #sinceMs: number | null = null;
  #lastMs = 0;
  #failures = 0;

  /** @param events the names of the two lines. */
  constructor(events: { readonly began: string; readonly ended: string }) {
    this.#began = events.began;
    this.#ended = events.ended;
  }

  /** It has failed. @param details of the first failure, for the line. */
  failed(details: Omit<LogEvent, "event">): void {
    this.#lastMs = Date.now();
    this.#failures += 1;
    if (this.#sinceMs !== null) return;
    this.#sinceMs = this.#lastMs;
    logEvent({ event: this.#began, ...details });
  }

  /** It has answered. */
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
