/** After this many requests in a minute, only one in `ONE_IN` is recorded. */
const FULL_PER_MINUTE = 10;
const ONE_IN = 100;

const MINUTE_MS = 60_000;

/**
 * Decides which of an isolate's requests without a valid key are recorded, so that a flood costs
 * little. Up to 99 skipped requests are never counted if the isolate ends. Reads no clock.
 */
export class AnonymousSample {
  /** By HTTP status, because a record also represents skipped requests. */
  readonly #counts = new Map<number, { minute: number; inMinute: number; unrecorded: number }>();

  /**
   * Counts one request. Returns how many requests its record represents: this request and those
   * skipped before it. Returns `null` if this request is not recorded.
   */
  count(status: number, nowMs: number): number | null {
    const minute = Math.floor(nowMs / MINUTE_MS);
    const before = this.#counts.get(status) ?? { minute, inMinute: 0, unrecorded: 0 };
    const inMinute = before.minute === minute ? before.inMinute + 1 : 1;
    const unrecorded = before.unrecorded + 1;
    const isRecorded = inMinute <= FULL_PER_MINUTE || unrecorded >= ONE_IN;
    this.#counts.set(status, { minute, inMinute, unrecorded: isRecorded ? 0 : unrecorded });
    return isRecorded ? unrecorded : null;
  }
}
