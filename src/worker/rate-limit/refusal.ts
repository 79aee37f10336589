import { type Decision, type QuotaPolicy, quotaLater } from "../limits/decision.ts";
import { isSameLimits } from "../limits/plans.ts";

/** Most refusals that are gathered before the object is told of them. */
const MAX_UNREPORTED = 50;

/** Most of them while the object cannot be reached: as many as can lead to a ban by default. */
const MAX_KEPT_BACK = 1_000;

/** The longest that one is kept back: other isolates may be gathering for the same ban. */
const MAX_UNREPORTED_MS = 3_000;

/** What the Durable Object has not heard of. */
export interface UnreportedRefusals {
  /** How long ago those were that may be strikes, in milliseconds, the oldest first. */
  readonly agesMs: readonly number[];
  /** How many there were in all. */
  readonly count: number;
}

/** A refusal that the Durable Object has decided on, as an isolate remembers it. Pure: no clock of its own. */
export class Refusal {
  readonly #decision: Decision;
  readonly #policy: QuotaPolicy;
  /** The isolate's clock when the object was asked and when it had answered, in Unix milliseconds. */
  readonly #askedMs: number;
  readonly #answeredMs: number;
  #unreportedMs: number[] = [];
  #unreportedCount = 0;

  constructor(decision: Decision, policy: QuotaPolicy, askedMs: number, answeredMs: number) {
    this.#decision = decision;
    this.#policy = policy;
    this.#askedMs = askedMs;
    this.#answeredMs = answeredMs;
  }

  /** Takes over what an earlier refusal has gathered that the object has not heard of. */
  takeOver(earlier: Refusal): this {
    this.#unreportedMs = earlier.#unreportedMs;
    this.#unreportedCount = earlier.#unreportedCount;
    return this;
  }

  /** Whether the object would surely refuse a request at `nowMs` under this policy. */
  standsAt(nowMs: number, { revision, resets, limits }: QuotaPolicy): boolean {
    const isSamePolicy =
      revision === this.#policy.revision &&
      resets === this.#policy.resets &&
      isSameLimits(limits, this.#policy.limits);
    return isSamePolicy && this.#lastsAt(nowMs);
  }

  /**
   * Refuses a request at `nowMs`, by the same decision.
   *
   * @returns the decision, or `null` where the object has to hear of the refusals first, because
   *   they may amount to a ban.
   */
  repeat(nowMs: number): Decision | null {
    const { strikes } = this.#decision;
    if (strikes !== null && this.#objectMs(nowMs) >= strikes.countFromMs) {
      const isManyUnreported =
        this.#unreportedMs.length + 1 >= Math.min(Math.ceil(strikes.left / 2), MAX_UNREPORTED);
      const isOldUnreported = nowMs - (this.#unreportedMs[0] ?? nowMs) >= MAX_UNREPORTED_MS;
      if (isManyUnreported || isOldUnreported) return null;
      this.#unreportedMs.push(nowMs);
    }
    this.#unreportedCount += 1;
    return this.decisionAt(nowMs);
  }

  /** Refuses a request at `nowMs` while the object cannot hear of it. It is reported later. */
  repeatUnreported(nowMs: number): Decision {
    if (this.#unreportedMs.length < MAX_KEPT_BACK) this.#unreportedMs.push(nowMs);
    this.#unreportedCount += 1;
    return this.decisionAt(nowMs);
  }

  /** The same decision at a later `nowMs`, for a request that the object may have counted. */
  decisionAt(nowMs: number): Decision {
    return quotaLater(this.#decision, this.#objectMs(nowMs));
  }

  /**
   * The refusals that the object has not heard of, as they are at `nowMs`. They are told once. Before
   * them comes the one that began the wait: an object that was evicted meanwhile has forgotten it.
   */
  takeUnreported(nowMs: number): UnreportedRefusals {
    const { strikes } = this.#decision;
    // Without a grace every refusal is a strike, which must not be told twice. The object of an
    // earlier version says nothing of strikes.
    const hasGrace = strikes != null && strikes.countFromMs > strikes.waitedSinceMs;
    const waitedMs = hasGrace ? [this.#objectMs(nowMs) - strikes.waitedSinceMs] : [];
    const unreportedMs = this.#unreportedMs.map((refusedMs) => nowMs - refusedMs);
    const agesMs = [...waitedMs, ...unreportedMs].map((ageMs) => Math.max(0, ageMs));
    const count = this.#unreportedCount;
    this.#unreportedMs = [];
    this.#unreportedCount = 0;
    return { agesMs, count };
  }

  /** The two clocks differ by an unknown amount: that the object decided no earlier than it was asked bounds it. */
  #lastsAt(nowMs: number): boolean {
    const { standsUntilMs, nowMs: decidedMs } = this.#decision;
    return (
      standsUntilMs !== null &&
      nowMs >= this.#answeredMs &&
      nowMs - this.#askedMs < standsUntilMs - decidedMs
    );
  }

  /** The object's time, or a little less: it decided before its answer came. */
  #objectMs(nowMs: number): number {
    return this.#decision.nowMs + (nowMs - this.#answeredMs);
  }
}
