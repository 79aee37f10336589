/**
 * How long a call is remembered: longer than any attempt of it. An isolate retries a call within
 * `LIMITER_TIMEOUT_MS`, at most 30 seconds; the runtime begins its own attempts within 10 seconds.
 */
const REMEMBERED_MS = 45_000;

/** This many calls are remembered even if they seem older, because the clock may have jumped. */
const MIN_CALLS = 256;

/**
 * The outcomes of the last calls of a Durable Object by nonce, so that a call that is sent again
 * because its answer was lost counts once. Lost in a restart. Reads no clock.
 */
export class RecentCalls<Outcome> {
  readonly #calls = new Map<string, { readonly outcome: Outcome; readonly atMs: number }>();

  get(nonce: string): Outcome | undefined {
    return this.#calls.get(nonce)?.outcome;
  }

  /** Remembers a call at `nowMs` (Unix milliseconds), and forgets calls that are too old. */
  add(nonce: string, outcome: Outcome, nowMs: number): void {
    this.#calls.set(nonce, { outcome, atMs: nowMs });
    for (const [oldest, { atMs }] of this.#calls) {
      if (this.#calls.size <= MIN_CALLS || nowMs - atMs <= REMEMBERED_MS) return;
      this.#calls.delete(oldest);
    }
  }
}
