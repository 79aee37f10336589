import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision, Quota, WindowQuota } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import type { Limits } from "../../../src/rules/limits/plans.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";

interface OpenWindow {
  readonly openedMs: number;
  readonly count: number;
}

/** Restarts a window, but keeps its count, if the clock was set back to before its opening. */
function notAhead(window: OpenWindow | null, nowMs: number): OpenWindow | null {
  return window && { ...window, openedMs: Math.min(window.openedMs, nowMs) };
}

function openAt(window: OpenWindow | null, lengthMs: number, nowMs: number): OpenWindow {
  const isOpen = window !== null && nowMs < window.openedMs + lengthMs;
  return isOpen ? window : { openedMs: nowMs, count: 0 };
}

/** A reference model of the limiter that follows docs/limits.md, Windows and Bans. */
export class LimitsModel {
  numbers: BanPolicy;
  strikes = 0;
  bans = 0;
  #policy: QuotaPolicy | null = null;
  #minute: OpenWindow | null = null;
  #day: OpenWindow | null = null;
  #wait: { beganMs: number; strikesMs: number[] } | null = null;
  #ban: { lengthMs: number; endMs: number; number: number; mode: string } | null = null;

  constructor(numbers: BanPolicy) {
    this.numbers = numbers;
  }

  /** Simulates a restart: forgets the wait, which is not stored. */
  restart(): void {
    this.#wait = null;
  }

  request(policy: QuotaPolicy, nowMs: number, report: WaitReport | null = null): Decision {
    const { graceMs, longestBanMs } = this.numbers;
    const { limits: limitsBefore } = this.#policy ?? policy;
    const hasRoom = this.#hasRoom(policy, nowMs);
    if (this.#ban !== null)
      this.#ban.endMs = Math.min(
        this.#ban.endMs,
        nowMs + Math.min(this.#ban.lengthMs, longestBanMs),
      );
    if (this.#wait !== null) {
      this.#wait.beganMs = Math.min(this.#wait.beganMs, nowMs);
      this.#wait.strikesMs = this.#wait.strikesMs.map((ms) => Math.min(ms, nowMs));
    }
    if (hasRoom && this.#bannedUntilMs(nowMs) <= nowMs) {
      this.#admit(nowMs);
      this.#wait = null;
      return { ...this.#quota(nowMs), admitted: true, standsUntilMs: null, strikes: null };
    }
    const collects = () => this.numbers.mode !== "off" && !this.#isBan(nowMs);
    if (report !== null && collects()) {
      const beganMs = nowMs - report.ageMs;
      if (this.#wait === null && beganMs >= this.#fullSinceMs(limitsBefore, nowMs)) {
        this.#wait = { beganMs, strikesMs: [] };
      }
      if (this.#wait !== null) {
        const oldestMs = nowMs - report.oldestStrikeAgeMs;
        const isStrike = oldestMs - this.#wait.beganMs >= graceMs;
        const times = Array<number>(isStrike ? report.strikes : 0).fill(oldestMs);
        this.#strike(times, limitsBefore, nowMs);
      }
    }
    if (collects()) {
      const isStrike = this.#wait !== null && nowMs - this.#wait.beganMs >= graceMs;
      this.#wait ??= { beganMs: nowMs, strikesMs: [] };
      this.#strike(isStrike ? [nowMs] : [], this.#policy!.limits, nowMs);
    }
    const quota = this.#quota(nowMs);
    const { beganMs = nowMs, strikesMs = [] } = this.#wait ?? {};
    const left = this.#strikesToBan(this.#policy!.limits) - strikesMs.length;
    return {
      ...quota,
      admitted: false,
      standsUntilMs: quota.banned ? this.#ban!.endMs : quota.retryAtMs,
      strikes: collects() ? { waitedSinceMs: beganMs, countFromMs: beganMs + graceMs, left } : null,
    };
  }

  /** Returns whether a request with this policy must be admitted, unless the key is banned. */
  #hasRoom(policy: QuotaPolicy, nowMs: number): boolean {
    const known = this.#policy ?? policy;
    if (policy.resets > known.resets) this.#minute = this.#day = this.#wait = this.#ban = null;
    this.#policy = policy.revision >= known.revision ? policy : known;
    this.#minute = notAhead(this.#minute, nowMs);
    this.#day = notAhead(this.#day, nowMs);
    const { perMinute, perDay } = this.#policy.limits;
    const [minute, day] = this.#openAt(nowMs);
    return minute.count < perMinute && day.count < perDay;
  }

  #admit(nowMs: number): void {
    const [minute, day] = this.#openAt(nowMs);
    this.#minute = { ...minute, count: minute.count + 1 };
    this.#day = { ...day, count: day.count + 1 };
  }

  #openAt(nowMs: number): [minute: OpenWindow, day: OpenWindow] {
    return [openAt(this.#minute, MINUTE_MS, nowMs), openAt(this.#day, DAY_MS, nowMs)];
  }

  /** Adds a strike for each time in `timesMs` (all equal). Begins a ban after enough strikes. */
  #strike(timesMs: readonly number[], limits: Limits, nowMs: number): void {
    const wait = this.#wait!;
    this.strikes += timesMs.length;
    const { strikeWindowMs, firstBanMs, longestBanMs, mode } = this.numbers;
    const [oldestMs = nowMs] = timesMs;
    const isNewSeries = oldestMs - Math.min(...wait.strikesMs) >= strikeWindowMs;
    const series = [...(isNewSeries ? [] : wait.strikesMs), ...timesMs];
    const isTooLate = nowMs - Math.min(...series) >= strikeWindowMs;
    if (!isTooLate) wait.strikesMs = series;
    if (wait.strikesMs.length < this.#strikesToBan(limits)) return;
    const number = (this.#remembered(nowMs)?.number ?? 0) + 1;
    let lengthMs = firstBanMs;
    for (let n = 1; n < number; n++) lengthMs *= 2;
    this.bans += 1;
    lengthMs = Math.min(lengthMs, longestBanMs);
    this.#ban = { lengthMs, endMs: nowMs + lengthMs, number, mode };
    wait.strikesMs = [];
  }

  #strikesToBan({ perMinute }: Limits): number {
    const { minStrikes, maxStrikes } = this.numbers;
    return perMinute < minStrikes ? minStrikes : Math.min(perMinute, maxStrikes);
  }

  /** Returns the last ban, unless it is forgotten or began in another mode. */
  #remembered(nowMs: number) {
    const { forgetAfterMs, mode } = this.numbers;
    const isOver = this.#ban === null || nowMs >= this.#ban.endMs + forgetAfterMs;
    return isOver || this.#ban!.mode !== mode ? null : this.#ban;
  }

  /** Returns whether there is a ban now, including one that is only logged. */
  #isBan(nowMs: number): boolean {
    return (this.#remembered(nowMs)?.endMs ?? 0) > nowMs;
  }

  #bannedUntilMs(nowMs: number): number {
    const isEnforced = this.numbers.mode === "on" && this.#isBan(nowMs);
    return isEnforced ? this.#ban!.endMs : 0;
  }

  #fullSinceMs({ perMinute, perDay }: Limits, nowMs: number): number {
    const [minute, day] = this.#openAt(nowMs);
    return Math.min(
      minute.count >= perMinute ? minute.openedMs : Infinity,
      day.count >= perDay ? day.openedMs : Infinity,
    );
  }

  #quota(nowMs: number): Quota {
    const { perMinute, perDay } = this.#policy!.limits;
    const [minute, day] = this.#openAt(nowMs);
    const quota = (window: OpenWindow, limit: number, lengthMs: number): WindowQuota => ({
      limit,
      remaining: Math.max(0, limit - window.count),
      endsMs: window.openedMs + lengthMs,
    });
    const windows = {
      minute: quota(minute, perMinute, MINUTE_MS),
      day: quota(day, perDay, DAY_MS),
    };
    const bannedUntilMs = this.#bannedUntilMs(nowMs);
    const fullUntilMs = Object.values(windows).map((one) => (one.remaining > 0 ? 0 : one.endsMs));
    const retryAtMs = Math.max(bannedUntilMs, ...fullUntilMs) || null;
    return { nowMs, ...windows, retryAtMs, banned: bannedUntilMs > 0 };
  }
}
