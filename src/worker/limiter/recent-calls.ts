/**
 * The answers to the calls of the last seconds, by nonce, so that a call that is sent again is not
 * counted again. Lost in a restart. Reads no clock.
 */
export class RecentCalls<Answer> {
  readonly #keptMs: number;
  #recent = new Map<string, Answer>();
  #earlier = new Map<string, Answer>();
  #recentSinceMs = 0;

  /** @param keptMs the least time in milliseconds for which an answer is remembered. */
  constructor(keptMs: number) {
    this.#keptMs = keptMs;
  }

  get(nonce: string): Answer | undefined {
    return this.#recent.get(nonce) ?? this.#earlier.get(nonce);
  }

  add(nonce: string, answer: Answer, nowMs: number): void {
    // If the clock was set, an answer is kept for longer or until the call after the next.
    if (Math.abs(nowMs - this.#recentSinceMs) >= this.#keptMs) {
      this.#earlier = this.#recent;
      this.#recent = new Map();
      this.#recentSinceMs = nowMs;
    }
    this.#recent.set(nonce, answer);
  }
}
