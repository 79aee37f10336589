import { type Decision, type QuotaPolicy, quotaLater } from "../limits/decision.ts";
import { isSameLimits } from "../limits/plans.ts";

/** The most refusals that an isolate collects before it reports them to the Durable Object. */
const MAX_UNREPORTED = 50;

/**
 * The maximum number of refusals of one key for which an isolate keeps the times while the Durable
 * Object cannot be reached. The isolate only counts further refusals: with the default vars, 1,000
 * strikes always lead to a ban.
 */
const MAX_KEPT_BACK = 1_000;

/**
 * The time for which an isolate collects refusals; the next request after this time reports them.
 * Short, because the refusals of several isolates together can lead to a ban.
 */
const MAX_UNREPORTED_MS = 3_000;

/** Requests that an isolate refused from memory and has not yet reported to the Durable Object. */
export interface UnreportedRefusals {
  /** The ages in milliseconds of the refusals that may be strikes, the oldest first. */
  readonly agesMs: readonly number[];
  /** The number of all unreported refusals, including those that cannot be strikes. */
  readonly count: number;
}

/**
 * A refusal by the Durable Object. The isolate repeats the refusal from memory without calling the
 * Durable Object. Reads no clock: the time is a parameter.
 *
 * The isolate reports its refusals late and in groups, which saves calls. The drawback: a ban may
 * begin up to `MAX_UNREPORTED_MS` late.
 */
export class Refusal {
  readonly #decision: Decision;
  readonly #policy: QuotaPolicy;
  /**
   * Unix time in milliseconds on the isolate's clock before the call to the Durable Object.
   * `#answeredMs` is the time after this call.
   */
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

  /** Moves the unreported requests of an earlier refusal to this one. */
  takeOver(earlier: Refusal): this {
    this.#unreportedMs = earlier.#unreportedMs;
    this.#unreportedCount = earlier.#unreportedCount;
    return this;
  }

  /**
   * Returns whether the Durable Object would certainly refuse a request at `nowMs` under this
   * policy.
   */
  standsAt(nowMs: number, { revision, resets, limits }: QuotaPolicy): boolean {
    const isSamePolicy =
      revision === this.#policy.revision &&
      resets === this.#policy.resets &&
      isSameLimits(limits, this.#policy.limits);
    return isSamePolicy && this.#lastsAt(nowMs);
  }

  /**
   * Refuses a request at `nowMs` with the remembered decision.
   *
   * @returns `null` if the Durable Object must decide, because the unreported refusals may lead to
   *   a ban.
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

  /**
   * Refuses a request at `nowMs` while the Durable Object cannot be reached. A later call reports
   * this refusal.
   */
  repeatUnreported(nowMs: number): Decision {
    if (this.#unreportedMs.length < MAX_KEPT_BACK) this.#unreportedMs.push(nowMs);
    this.#unreportedCount += 1;
    return this.decisionAt(nowMs);
  }

  /**
   * Returns the remembered decision as it applies at `nowMs`, without adding a refusal to report.
   */
  decisionAt(nowMs: number): Decision {
    return quotaLater(this.#decision, this.#objectMs(nowMs));
  }

  /**
   * Returns the unreported refusals with their ages at `nowMs`, and forgets them. Adds the age of
   * the refusal that began the wait: a Durable Object that was evicted since then restores the wait
   * from this age.
   */
  takeUnreported(nowMs: number): UnreportedRefusals {
    const { strikes } = this.#decision;
    // Send the refusal that began the wait only if there is a grace period. Without a grace period,
    // the Durable Object would count it again, as a strike. `strikes` is undefined if the Durable
    // Object runs an earlier version of the service.
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
   * Returns whether the refusal still lasts. The clocks of the isolate and the Durable Object
   * differ by an unknown amount, so this method compares durations. The Durable Object decided
   * after `#askedMs`, so the refusal is at most as old as the time since `#askedMs`.
   */
  #lastsAt(nowMs: number): boolean {
    const { standsUntilMs, nowMs: decidedMs } = this.#decision;
    return (
      standsUntilMs !== null &&
      nowMs >= this.#answeredMs &&
      nowMs - this.#askedMs < standsUntilMs - decidedMs
    );
  }

  /**
   * Converts a time on the isolate's clock to the Durable Object's clock. The result is slightly
   * too early, because the Durable Object decided before its response arrived.
   */
  #objectMs(nowMs: number): number {
    return this.#decision.nowMs + (nowMs - this.#answeredMs);
  }
}
