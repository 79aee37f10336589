import type { BanPolicy } from "../../../src/worker/limit-rules/bans.ts";
import type { QuotaPolicy, WindowQuota } from "../../../src/worker/limit-rules/decision.ts";
import type { Limits } from "../../../src/worker/limit-rules/plans.ts";

export interface Answer {
  readonly admitted: boolean;
  readonly banned: boolean;
  readonly minute: WindowQuota;
  readonly day: WindowQuota;
  /**
   * Unix time in milliseconds at which the next request is admitted; `null` if it is admitted now.
   */
  readonly retryAtMs: number | null;
}

/**
 * A reference model of the limiter that follows docs/limits.md, Windows and Bans, sentence by
 * sentence. It keeps a list of all events, which is simple but slow. Its clock must never be set
 * back.
 */
export class LimitsModel {
  readonly #numbers: BanPolicy;
  /** The number of all strikes so far; `bans` is the number of all bans so far. */
  strikes = 0;
  bans = 0;
  #policy: QuotaPolicy | null = null;
  #admittedMs: number[] = [];
  /**
   * The times of all refusals since the last admission, except refusals during a ban.
   */
  #waitMs: number[] = [];
  /** The bans that are not forgotten yet. */
  #bans: { readonly startMs: number; readonly endMs: number }[] = [];

  constructor(numbers: BanPolicy) {
    this.#numbers = numbers;
  }

  request(policy: QuotaPolicy, nowMs: number): Answer {
    const { limits } = this.#newest(policy);
    const before = this.#describe(limits, nowMs);
    const admitted = before.retryAtMs === null;
    if (admitted) {
      this.#admittedMs.push(nowMs);
      this.#waitMs = [];
    } else if (!before.banned && policy.bans) {
      this.#waitMs.push(nowMs);
      const isFirst = this.#waitMs.length === 1;
      const inFlightUntilMs = Math.min(...this.#waitMs) + this.#numbers.graceMs;
      if (!isFirst && nowMs >= inFlightUntilMs) this.strikes += 1;
      this.#banIfRefusedAsFastAsServed(limits, nowMs);
    }
    return { ...this.#describe(limits, nowMs), admitted };
  }

  /** Simulates a restart: forgets the refusals since the last admission, which are not stored. */
  restart(): void {
    this.#waitMs = [];
  }

  /** Returns the newest policy so far. If the policy has more resets, first forgets all events. */
  #newest(policy: QuotaPolicy): QuotaPolicy {
    const known = this.#policy ?? policy;
    if (policy.resets > known.resets) {
      this.#admittedMs = [];
      this.#waitMs = [];
      this.#bans = [];
    }
    this.#policy = policy.revision >= known.revision ? policy : known;
    return this.#policy;
  }

  #describe({ perMinute, perDay }: Limits, nowMs: number): Omit<Answer, "admitted"> {
    const minute = describeWindow(this.#admittedMs, 60_000, perMinute, nowMs);
    const day = describeWindow(this.#admittedMs, 86_400_000, perDay, nowMs);
    const ban = this.#bans.find(({ endMs }) => nowMs < endMs);
    const obstacles = [
      ...(minute.remaining === 0 ? [minute.endsMs] : []),
      ...(day.remaining === 0 ? [day.endsMs] : []),
      ...(ban === undefined ? [] : [ban.endMs]),
    ];
    return {
      banned: ban !== undefined,
      minute,
      day,
      retryAtMs: obstacles.length === 0 ? null : Math.max(...obstacles),
    };
  }

  #banIfRefusedAsFastAsServed({ perMinute }: Limits, nowMs: number): void {
    const { minStrikes, maxStrikes, firstBanMs, longestBanMs, forgetAfterMs } = this.#numbers;
    const needed = perMinute < minStrikes ? minStrikes : Math.min(perMinute, maxStrikes);
    if (this.#strikesInSeries() < needed) return;
    this.#bans = (this.#bans.at(-1)?.endMs ?? -Infinity) + forgetAfterMs <= nowMs ? [] : this.#bans;
    let lengthMs = firstBanMs;
    for (const _ of this.#bans) lengthMs = Math.min(2 * lengthMs, longestBanMs);
    this.bans += 1;
    this.#bans.push({ startMs: nowMs, endMs: nowMs + Math.min(lengthMs, longestBanMs) });
  }

  #strikesInSeries(): number {
    const lastBanMs = this.#bans.at(-1)?.startMs ?? -Infinity;
    const [waitBeganMs = 0, ...others] = this.#waitMs;
    const strikesMs = others
      .filter((refusedMs) => refusedMs >= waitBeganMs + this.#numbers.graceMs)
      .filter((refusedMs) => refusedMs > lastBanMs);
    let series: number[] = [];
    for (const strikeMs of strikesMs) {
      const isOver = strikeMs >= (series[0] ?? Infinity) + this.#numbers.strikeWindowMs;
      series = isOver ? [strikeMs] : [...series, strikeMs];
    }
    return series.length;
  }
}

/**
 * Computes a window from the times of all admissions. Each admission opens a window unless one is
 * open, and is counted in it.
 */
function describeWindow(
  admittedMs: readonly number[],
  lengthMs: number,
  limit: number,
  nowMs: number,
): WindowQuota {
  let openedMs = -Infinity;
  let count = 0;
  for (const timeMs of [...admittedMs, nowMs]) {
    if (timeMs >= openedMs + lengthMs) {
      openedMs = timeMs;
      count = 0;
    }
    count += 1;
  }
  const counted = count - 1; // The loop also counted `nowMs`, which is not an admission.
  return { limit, remaining: Math.max(0, limit - counted), endsMs: openedMs + lengthMs };
}
