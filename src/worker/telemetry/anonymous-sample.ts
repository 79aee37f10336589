/** After this many requests in a minute, only one in `ONE_IN` is recorded. */
const FULL_PER_MINUTE = 10;
const ONE_IN = 100;

const MINUTE_MS = 60_000;

/**
 * Decides which of an isolate's requests without a valid key are recorded, so that a flood costs
 * little. Up to 99 skipped requests are never counted if the isolate ends. Reads no clock.
 */
export class AnonymousSample {
  #minute = Number.NaN;
  #inMinute = 0;
  #unrecorded = 0;

  /**
   * Counts one request. Returns how many requests its record represents: this request and those
   * skipped before it. Returns `null` if this request is not recorded.
   */
  count(nowMs: number): number | null {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute !== this.#minute) this.#inMinute = 0;
    this.#minute = minute;
    this.#inMinute += 1;
    this.#unrecorded += 1;
    if (this.#inMinute > FULL_PER_MINUTE && this.#unrecorded < ONE_IN) return null;
    const represents = this.#unrecorded;
    this.#unrecorded = 0;
    return represents;
  }
}
