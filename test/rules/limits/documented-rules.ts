import type { Ban, BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";

/**
 * What docs/limits.md says about the requests of one key, from the times of these requests, while
 * no clock is set back.
 */
export class DocumentedRules {
  #policy: QuotaPolicy | null = null;
  /** The times of the requests that the last window of each kind has admitted. */
  #minuteMs: number[] = [];
  #dayMs: number[] = [];
  #waitingSinceMs: number | null = null;
  #strikesMs: number[] = [];
  #ban: Ban | null = null;

  /** A ban survives a restart. Strikes do not. */
  restart(): void {
    this.#waitingSinceMs = null;
    this.#strikesMs = [];
  }

  request(asked: QuotaPolicy, bans: BanPolicy, nowMs: number) {
    if (asked.resets > (this.#policy?.resets ?? 0)) {
      this.restart();
      [this.#minuteMs, this.#dayMs, this.#ban] = [[], [], null];
    }
    const isOutdated = this.#policy !== null && asked.revision < this.#policy.revision;
    const { limits } = (this.#policy = isOutdated ? this.#policy! : asked);
    if (nowMs >= this.#minuteMs[0]! + MINUTE_MS) this.#minuteMs = [];
    if (nowMs >= this.#dayMs[0]! + DAY_MS) this.#dayMs = [];
    const hasRoom = this.#minuteMs.length < limits.perMinute && this.#dayMs.length < limits.perDay;
    const isAdmitted = hasRoom && !(this.#isBan(bans, nowMs) && bans.mode === "on");
    let strikes = 0;
    let newBan: Ban | null = null;
    if (isAdmitted) {
      this.#minuteMs.push(nowMs);
      this.#dayMs.push(nowMs);
      this.restart();
    } else if (bans.mode !== "off" && !this.#isBan(bans, nowMs)) {
      this.#waitingSinceMs ??= nowMs;
      if (nowMs - this.#waitingSinceMs >= bans.graceMs) {
        if (nowMs - this.#strikesMs[0]! >= bans.strikeWindowMs) this.#strikesMs = [];
        strikes = this.#strikesMs.push(nowMs) && 1;
      }
      const enough = Math.max(Math.min(limits.perMinute, bans.maxStrikes), bans.minStrikes);
      if (this.#strikesMs.length >= enough) newBan = this.#ban = this.#nextBan(bans, nowMs);
    }
    const quota = (limit: number, admittedMs: readonly number[], lengthMs: number) => {
      const remaining = Math.max(0, limit - admittedMs.length);
      return { limit, remaining, endsMs: (admittedMs[0] ?? nowMs) + lengthMs };
    };
    const minute = quota(limits.perMinute, this.#minuteMs, MINUTE_MS);
    const day = quota(limits.perDay, this.#dayMs, DAY_MS);
    const banned = this.#isBan(bans, nowMs) && bans.mode === "on";
    const fullUntilMs = [minute, day].map((of) => (of.remaining === 0 ? of.endsMs : 0));
    const retryAtMs = Math.max(...fullUntilMs, banned ? this.#ban!.untilMs : 0) || null;
    return { quota: { nowMs, minute, day, retryAtMs, banned }, isAdmitted, strikes, newBan };
  }

  /** The key's last ban, until it is forgotten or another mode ends it. */
  #lastBan({ mode, forgetAfterMs }: BanPolicy, nowMs: number): Ban | null {
    const ban = this.#ban;
    if (ban === null || nowMs >= ban.untilMs + forgetAfterMs) return null;
    return mode === (ban.loggedOnly ? "log" : "on") ? ban : null;
  }

  #isBan(bans: BanPolicy, nowMs: number): boolean {
    return nowMs < (this.#lastBan(bans, nowMs)?.untilMs ?? 0);
  }

  #nextBan(bans: BanPolicy, nowMs: number): Ban {
    this.#strikesMs = [];
    const number = 1 + (this.#lastBan(bans, nowMs)?.number ?? 0);
    const untilMs = nowMs + Math.min(bans.firstBanMs * 2 ** (number - 1), bans.longestBanMs);
    const ban = { beganMs: nowMs, untilMs, number };
    return bans.mode === "log" ? { ...ban, loggedOnly: true } : ban;
  }
}
