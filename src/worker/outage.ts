import { isWithin } from "./deadline.ts";
import { type LogEvent, logEvent } from "./log.ts";

/** An outage ends after this long without failures. So an intermittent outage is logged once. */
const QUIET_MS = 10_000;

/** Logs one line when a part of the service begins to fail, and one when it works again. */
export class Outage {
  readonly #events: { readonly began: string; readonly ended: string };
  /** Unix time in milliseconds of the outage's first failure; `null` if there is no outage. */
  #sinceMs: number | null = null;
  #lastMs = 0;
  #failures = 0;

  constructor(events: { readonly began: string; readonly ended: string }) {
    this.#events = events;
  }

  /** Records a failure of the part. A failure that begins an outage is logged with `details`. */
  failed(details: Omit<LogEvent, "event">): void {
    this.#lastMs = Date.now();
    this.#failures += 1;
    if (this.#sinceMs !== null) return;
    this.#sinceMs = this.#lastMs;
    logEvent({ event: this.#events.began, ...details });
  }

  /** Records a success of the part. Ends the outage if the last failure is long enough ago. */
  answered(): void {
    if (this.#sinceMs === null) return;
    if (isWithin(QUIET_MS, this.#lastMs)) return;
    const seconds = Math.round((this.#lastMs - this.#sinceMs) / 1_000);
    logEvent({ event: this.#events.ended, failures: this.#failures, seconds });
    this.#sinceMs = null;
    this.#failures = 0;
  }
}
