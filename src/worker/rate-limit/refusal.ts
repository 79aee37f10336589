import { type Decision, type QuotaPolicy, quotaLater } from "../limits/decision.ts";
import { isSameLimits } from "../limits/plans.ts";

/** The most refusals that an isolate gathers before it reports them to the object. */
const MAX_UNREPORTED = 50;

/** The most while the object cannot be reached: as many as lead to a ban by default. */
const MAX_KEPT_BACK = 1_000;

/** The longest time that one waits for a report: other isolates may gather towards the same ban. */
const MAX_UNREPORTED_MS = 3_000;

/** Requests that an isolate refused and has not reported to the Durable Object. */
export interface UnreportedRefusals {
  /** The ages in milliseconds of those that may be strikes, the oldest first. */
  readonly agesMs: readonly number[];
  /** The number of all of them. */
  readonly count: number;
}

/**
 * A refusal by the Durable Object, which an isolate repeats from memory. Pure: the time is a parameter.
 *
 * The isolate reports its refusals late and in groups, which saves calls. In return, a ban may begin
 * up to `MAX_UNREPORTED_MS` late.
 */
export class Refusal {
  readonly #decision: Decision;
  readonly #policy: QuotaPolicy;
  /** Unix milliseconds on the isolate's clock before and after the call to the object. */
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

  /** Takes over the unreported requests of an earlier refusal. */
  takeOver(earlier: Refusal): this {
    this.#unreportedMs = earlier.#unreportedMs;
    this.#unreportedCount = earlier.#unreportedCount;
    return this;
  }

  /** Returns whether the object would surely refuse a request at `nowMs` under this policy. */
  standsAt(nowMs: number, { revision, resets, limits }: QuotaPolicy): boolean {
    const isSamePolicy =
      revision === this.#policy.revision &&
      resets === this.#policy.resets &&
      isSameLimits(limits, this.#policy.limits);
    return isSamePolicy && this.#lastsAt(nowMs);
  }

  /**
   * Refuses a request at `nowMs` by the same decision.
   *
   * @returns `null` if the object must decide, because the unreported refusals may lead to a ban.
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

  /** Refuses a request at `nowMs` while the object cannot be reached. A later call reports it. */
  repeatUnreported(nowMs: number): Decision {
    if (this.#unreportedMs.length < MAX_KEPT_BACK) this.#unreportedMs.push(nowMs);
    this.#unreportedCount += 1;
    return this.decisionAt(nowMs);
  }

  /** Returns the same decision at a later `nowMs`, for a request that the object may have counted. */
  decisionAt(nowMs: number): Decision {
    return quotaLater(this.#decision, this.#objectMs(nowMs));
  }

  /**
   * Returns the unreported refusals with their ages at `nowMs`, each only once. Adds the refusal that
   * began the wait, because an object that was evicted meanwhile has forgotten it.
   */
  takeUnreported(nowMs: number): UnreportedRefusals {
    const { strikes } = this.#decision;
    // Without a grace every refusal is a strike, which must not be reported twice. An object of an
    // earlier version sends no `strikes`.
    const hasGrace = strikes != null && strikes.countFromMs > strikes.waitedSinceMs;
    const waitedMs = hasGrace ? [this.#objectMs(nowMs) - strikes.waitedSinceMs] : [];
    const unreportedMs = this.#unreportedMs.map((refusedMs) => nowMs - refusedMs);
    const agesMs = [...waitedMs, ...unreportedMs].map((ageMs) => Math.max(0, ageMs));
    const count = this.#unreportedCount;
    this.#unreportedMs = [];
    this.#unreportedCount = 0;
    return { agesMs, count };
  }

  /**
   * Returns whether the refusal still lasts. The two clocks differ by an unknown amount. But the
   * object decided after `askedMs`, so the time since then is at least the refusal's age.
   */
  #lastsAt(nowMs: number): boolean {
    const { standsUntilMs, nowMs: decidedMs } = this.#decision;
    return (
      standsUntilMs !== null &&
      nowMs >= this.#answeredMs &&
      nowMs - this.#askedMs < standsUntilMs - decidedMs
    );
  }

  /** Returns the object's time, or slightly less, because the object decided before its answer arrived. */
  #objectMs(nowMs: number): number {
    return this.#decision.nowMs + (nowMs - this.#answeredMs);
  }
}
