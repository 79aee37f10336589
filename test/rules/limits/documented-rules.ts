import type { Ban, BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";

/** Decides as docs/limits.md says, from the times of a key's requests. No clock is set back. */
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
    // A ban is forgotten later, and also ends when the mode changes.
    const isOfMode = this.#ban !== null && bans.mode === (this.#ban.loggedOnly ? "log" : "on");
    let ban = isOfMode && nowMs < this.#ban!.untilMs + bans.forgetAfterMs ? this.#ban : null;
    const isBanned = () => bans.mode === "on" && ban !== null && nowMs < ban.untilMs;
    const hasRoom = this.#minuteMs.length < limits.perMinute && this.#dayMs.length < limits.perDay;
    const isAdmitted = hasRoom && !isBanned();
    let strikes = 0;
    let newBan: Ban | null = null;
    if (isAdmitted) {
      this.#minuteMs.push(nowMs);
      this.#dayMs.push(nowMs);
      this.restart();
    } else if (bans.mode !== "off" && nowMs >= (ban?.untilMs ?? 0)) {
      this.#waitingSinceMs ??= nowMs;
      if (nowMs - this.#strikesMs[0]! >= bans.strikeWindowMs) this.#strikesMs = [];
      strikes = nowMs - this.#waitingSinceMs >= bans.graceMs ? 1 : 0;
      if (strikes === 1) this.#strikesMs.push(nowMs);
      const enough = Math.max(Math.min(limits.perMinute, bans.maxStrikes), bans.minStrikes);
      if (this.#strikesMs.length >= enough) {
        this.#strikesMs = [];
        const number = 1 + (ban?.number ?? 0);
        const untilMs = nowMs + Math.min(bans.firstBanMs * 2 ** (number - 1), bans.longestBanMs);
        const mode = bans.mode === "log" ? { loggedOnly: true as const } : {};
        ban = newBan = this.#ban = { beganMs: nowMs, untilMs, number, ...mode };
      }
    }
    const quota = (limit: number, admittedMs: readonly number[], lengthMs: number) => {
      const remaining = Math.max(0, limit - admittedMs.length);
      return { limit, remaining, endsMs: (admittedMs[0] ?? nowMs) + lengthMs };
    };
    const minute = quota(limits.perMinute, this.#minuteMs, MINUTE_MS);
    const day = quota(limits.perDay, this.#dayMs, DAY_MS);
    const fullUntilMs = [minute, day].map((of) => (of.remaining === 0 ? of.endsMs : 0));
    const banned = isBanned();
    const retryAtMs = Math.max(...fullUntilMs, banned ? ban!.untilMs : 0) || null;
    const inForce = banned && { ban: { endsMs: ban!.untilMs, number: ban!.number } };
    const all = { nowMs, minute, day, retryAtMs, banned, ...inForce };
    return { quota: all, isAdmitted, strikes, newBan };
  }
}
