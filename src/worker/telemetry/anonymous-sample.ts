/** Requests in a minute of which each is recorded. */
const FULL_PER_MINUTE = 10;

/** Beyond them one request in so many is recorded. */
const ONE_IN = 100;

const MINUTE_MS = 60_000;

/**
 * Chooses which of an isolate's requests without a valid key are recorded, so that a flood of them
 * costs little. Pure: time is a parameter. What is not recorded when the isolate ends is lost.
 */
export class AnonymousSample {
  #minuteStartedMs = Number.NEGATIVE_INFINITY;
  #inMinute = 0;
  #unrecorded = 0;

  /**
   * Counts one request.
   *
   * @param nowMs Unix time in milliseconds.
   * @returns how many requests its record stands for, those skipped before it included; `null` if
   *   this request is skipped.
   */
  count(nowMs: number): number | null {
    const ageMs = nowMs - this.#minuteStartedMs;
    if (ageMs < 0 || ageMs >= MINUTE_MS) {
      this.#minuteStartedMs = nowMs;
      this.#inMinute = 0;
    }
    this.#inMinute += 1;
    this.#unrecorded += 1;
    if (this.#inMinute > FULL_PER_MINUTE && this.#unrecorded < ONE_IN) return null;
    const represents = this.#unrecorded;
    this.#unrecorded = 0;
    return represents;
  }
}
