import { type Decision, quotaLater } from "../../rules/limits/decision.ts";
import type { QuotaPolicy } from "../../rules/limits/limiter-state.ts";
import type { WaitReport } from "../../rules/limits/strikes.ts";
import { isSameLimits } from "../../rules/limits/plans.ts";

/** An isolate reports its strikes to the Durable Object at the latest when there are this many. */
const MAX_UNREPORTED = 50;

/** The key's first request this long after the oldest unreported strike causes a report. */
const MAX_UNREPORTED_MS = 3_000;

interface Refusal {
  readonly decision: Decision;
  readonly policy: QuotaPolicy;
  /** Unix time in milliseconds before the call, on the isolate's clock. */
  readonly askedMs: number;
  /** Unix time in milliseconds after the call, on the isolate's clock. */
  readonly answeredMs: number;
}

/**
 * An isolate's memory of a key's last refusal. Repeats the refusal without calling the Durable
 * Object, and counts the repeats. The isolate reports them late and in groups, which saves calls.
 * The drawback: a ban may begin up to `MAX_UNREPORTED_MS` late. Reads no clock.
 */
export class RefusalMemory {
  #refusal: Refusal | null = null;
  #refusals = 0;
  #strikes = 0;
  #oldestStrikeMs = 0;

  /** Remembers the last refusal; `null` if the Durable Object has admitted a request since. */
  learn(refusal: Refusal | null): void {
    this.#refusal = refusal;
  }

  /**
   * Refuses a request at `nowMs`. Returns `null` if the Durable Object must decide: it may admit the
   * request, or the unreported refusals may lead to a ban.
   */
  repeat(nowMs: number, policy: QuotaPolicy): Decision | null {
    const refusal = this.#standing(nowMs, policy);
    if (refusal !== null && countsAsStrike(refusal, nowMs)) {
      const left = refusal.decision.strikes?.left ?? 0;
      const isMany = this.#strikes + 1 >= Math.min(Math.ceil(left / 2), MAX_UNREPORTED);
      const isOld = this.#strikes > 0 && nowMs - this.#oldestStrikeMs >= MAX_UNREPORTED_MS;
      if (isMany || isOld) return null;
    }
    return this.repeatUnreported(nowMs, policy);
  }

  /** Refuses a request like `repeat`, however many refusals are unreported. */
  repeatUnreported(nowMs: number, policy: QuotaPolicy): Decision | null {
    const refusal = this.#standing(nowMs, policy);
    if (refusal === null) return null;
    this.#refusals += 1;
    if (countsAsStrike(refusal, nowMs)) {
      if (this.#strikes === 0) this.#oldestStrikeMs = nowMs;
      this.#strikes += 1;
    }
    return quotaLater(refusal.decision, objectMs(refusal, nowMs));
  }

  /** Returns the refusal of a request at `nowMs`, without counting it; `null` if none applies. */
  decisionAt(nowMs: number, policy: QuotaPolicy): Decision | null {
    const refusal = this.#standing(nowMs, policy);
    return refusal && quotaLater(refusal.decision, objectMs(refusal, nowMs));
  }

  /**
   * Returns the number of unreported refusals, and forgets them. `wait` reports the key's wait at
   * `nowMs`; it is `null` if the refusals cannot lead to a ban.
   */
  takeReport(nowMs: number): { readonly refusals: number; readonly wait: WaitReport | null } {
    const report = { refusals: this.#refusals, wait: this.#waitReport(nowMs) };
    this.#refusals = this.#strikes = 0;
    return report;
  }

  #waitReport(nowMs: number): WaitReport | null {
    const refusal = this.#refusal;
    if (!refusal?.decision.strikes) return null;
    return {
      ageMs: Math.max(0, objectMs(refusal, nowMs) - refusal.decision.strikes.waitedSinceMs),
      strikes: this.#strikes,
      oldestStrikeAgeMs: Math.max(0, nowMs - this.#oldestStrikeMs),
    };
  }

  /**
   * Returns the refusal if the Durable Object would certainly refuse a request at `nowMs`. Compares
   * durations, because its clock and the isolate's may differ. The Durable Object decided after
   * `askedMs`, so the age of the refusal is at most `nowMs - askedMs`.
   */
  #standing(nowMs: number, { revision, limits }: QuotaPolicy): Refusal | null {
    if (this.#refusal === null) return null;
    const { decision, policy, askedMs, answeredMs } = this.#refusal;
    const stands =
      revision === policy.revision &&
      isSameLimits(limits, policy.limits) &&
      decision.standsUntilMs !== null &&
      nowMs >= answeredMs &&
      nowMs - askedMs < decision.standsUntilMs - decision.nowMs;
    return stands ? this.#refusal : null;
  }
}

function countsAsStrike(refusal: Refusal, nowMs: number): boolean {
  const { strikes } = refusal.decision;
  return strikes !== null && objectMs(refusal, nowMs) >= strikes.countFromMs;
}

/**
 * Converts a time from the isolate's clock to the Durable Object's. The result is slightly early,
 * because the Durable Object decided before its response arrived.
 */
function objectMs({ decision, answeredMs }: Refusal, nowMs: number): number {
  return decision.nowMs + (nowMs - answeredMs);
}
