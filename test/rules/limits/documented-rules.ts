import type { Ban, BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";

export interface Known {
  readonly policy: QuotaPolicy | null;
  /** The times of the requests that the last window of each kind has admitted. */
  readonly minuteMs: readonly number[];
  readonly dayMs: readonly number[];
  readonly ban: Ban | null;
  readonly waitingSinceMs: number | null;
  readonly strikesMs: readonly number[];
}

const NO_WAIT = { waitingSinceMs: null, strikesMs: [] };
const EMPTY: Known = { policy: null, minuteMs: [], dayMs: [], ban: null, ...NO_WAIT };

/** Decides as docs/limits.md says, from the times of a key's requests. */
export class DocumentedRules {
  known: Known;

  constructor(known = EMPTY) {
    this.known = known;
  }

  /** Returns the rules of who only knows a decision, received at `nowMs`. */
  static after(decision: Decision, policy: QuotaPolicy, nowMs: number): DocumentedRules {
    const sinceMs = nowMs - decision.nowMs;
    const [minuteMs, dayMs] = (["minute", "day"] as const).map((name) => {
      const { limit, remaining, endsMs } = decision[name];
      const openedMs = endsMs + sinceMs - (name === "day" ? DAY_MS : MINUTE_MS);
      return Array<number>(limit - remaining).fill(openedMs);
    }) as [number[], number[]];
    const { endsMs = 0, number = 0 } = decision.ban ?? {};
    const ban = decision.banned ? { beganMs: nowMs, untilMs: endsMs + sinceMs, number } : null;
    return new DocumentedRules({ policy, minuteMs, dayMs, ban, ...NO_WAIT });
  }

  /** A ban survives a restart. Strikes do not. */
  restart(): void {
    this.#learn(NO_WAIT);
  }

  /** After a clock was set back, windows and waits begin again, and a later ban is over. */
  at(nowMs: number): this {
    const { minuteMs, dayMs, ban, waitingSinceMs, strikesMs } = this.known;
    const noLater = (times: readonly number[]) => times.map((ms) => Math.min(ms, nowMs));
    this.#learn({
      minuteMs: noLater(minuteMs),
      dayMs: noLater(dayMs),
      strikesMs: noLater(strikesMs),
      waitingSinceMs: waitingSinceMs && Math.min(waitingSinceMs, nowMs),
      ban: ban && ban.beganMs > nowMs ? { ...ban, beganMs: nowMs, untilMs: nowMs } : ban,
    });
    return this;
  }

  /** @param report strikes by an isolate, which count only if this request is refused. */
  request(asked: QuotaPolicy, bans: BanPolicy, nowMs: number, report: WaitReport | null = null) {
    const { policy: before } = this.at(nowMs).known;
    if (asked.resets > (before?.resets ?? 0)) this.#learn({ ...EMPTY, policy: asked });
    const policy = before !== null && asked.revision < before.revision ? before : asked;
    this.#learn({ policy });
    const minuteMs = open(this.known.minuteMs, MINUTE_MS, nowMs);
    const dayMs = open(this.known.dayMs, DAY_MS, nowMs);
    const isFull = ({ limits }: QuotaPolicy) =>
      [minuteMs.length >= limits.perMinute, dayMs.length >= limits.perDay] as const;
    const admitted = !isFull(policy).includes(true) && !this.#isBanned(bans, nowMs);
    const banBefore = this.known.ban;
    let strikes = 0;
    if (admitted) {
      this.#learn({ minuteMs: [...minuteMs, nowMs], dayMs: [...dayMs, nowMs], ...NO_WAIT });
    } else {
      if (report !== null) {
        // The isolate may have refused these requests under the policy before.
        const [isMinuteFull, isDayFull] = isFull(before ?? policy);
        const fullSinceMs = Math.min(
          isMinuteFull ? minuteMs[0]! : Infinity,
          isDayFull ? dayMs[0]! : Infinity,
        );
        const isOfThisWait = nowMs - report.ageMs >= fullSinceMs;
        const sinceMs = this.known.waitingSinceMs ?? (isOfThisWait ? nowMs - report.ageMs : null);
        const oldestMs = nowMs - report.oldestStrikeAgeMs;
        const refusedMs = Array<number>(report.strikes).fill(oldestMs);
        strikes += this.#refuse(refusedMs, sinceMs, before ?? policy, bans, nowMs);
      }
      strikes += this.#refuse([nowMs], this.known.waitingSinceMs ?? nowMs, policy, bans, nowMs);
    }
    const { ban } = this.known;
    const newBan = ban === banBefore ? null : ban;
    return { decision: this.#decision(admitted, policy, bans, nowMs), strikes, newBan };
  }

  /** Counts refusals in a wait. Returns how many of them are strikes. */
  #refuse(
    refusedMs: readonly number[],
    waitingSinceMs: number | null,
    { limits }: QuotaPolicy,
    bans: BanPolicy,
    nowMs: number,
  ): number {
    if (waitingSinceMs === null || !this.#collects(bans, nowMs)) return 0;
    const isStrike = (ms: number) => ms - waitingSinceMs >= bans.graceMs;
    const strikes = refusedMs.filter(isStrike);
    const isOver = (ms: number) => (strikes[0] ?? nowMs) - ms >= bans.strikeWindowMs;
    const series = this.known.strikesMs.some(isOver) ? [] : this.known.strikesMs;
    const strikesMs = [...series, ...strikes].toSorted((one, other) => one - other);
    // Of strikes that may have come after the end of the series, none counts.
    const isLate = nowMs - (strikesMs[0] ?? nowMs) >= bans.strikeWindowMs;
    this.#learn(isLate ? { waitingSinceMs } : { waitingSinceMs, strikesMs });
    if (this.known.strikesMs.length >= enough(limits.perMinute, bans)) {
      const number = 1 + (this.#lastBan(bans, nowMs)?.number ?? 0);
      const untilMs = nowMs + Math.min(bans.firstBanMs * 2 ** (number - 1), bans.longestBanMs);
      const mode = bans.mode === "log" ? { loggedOnly: true as const } : {};
      this.#learn({ ban: { beganMs: nowMs, untilMs, number, ...mode }, strikesMs: [] });
    }
    return strikes.length;
  }

  #decision(admitted: boolean, { limits }: QuotaPolicy, bans: BanPolicy, nowMs: number): Decision {
    const { minuteMs, dayMs, waitingSinceMs, strikesMs } = this.known;
    const quota = (limit: number, times: readonly number[], lengthMs: number) => {
      const admittedMs = open(times, lengthMs, nowMs);
      const remaining = Math.max(0, limit - admittedMs.length);
      return { limit, remaining, endsMs: (admittedMs[0] ?? nowMs) + lengthMs };
    };
    const minute = quota(limits.perMinute, minuteMs, MINUTE_MS);
    const day = quota(limits.perDay, dayMs, DAY_MS);
    const fullUntilMs = [minute, day].map((of) => (of.remaining === 0 ? of.endsMs : 0));
    const banned = this.#isBanned(bans, nowMs);
    const ban = banned ? this.#lastBan(bans, nowMs)! : null;
    const retryAtMs = Math.max(...fullUntilMs, ban?.untilMs ?? 0) || null;
    const isCounted = !admitted && waitingSinceMs !== null && this.#collects(bans, nowMs);
    return {
      nowMs,
      minute,
      day,
      retryAtMs,
      banned,
      ...(ban && { ban: { endsMs: ban.untilMs, number: ban.number } }),
      admitted,
      standsUntilMs: admitted ? null : (ban?.untilMs ?? retryAtMs),
      strikes: isCounted
        ? {
            waitedSinceMs: waitingSinceMs,
            countFromMs: waitingSinceMs + bans.graceMs,
            left: enough(limits.perMinute, bans) - strikesMs.length,
          }
        : null,
    };
  }

  /** The last ban, unless it is forgotten or the mode has changed. */
  #lastBan(bans: BanPolicy, nowMs: number): Ban | null {
    const { ban } = this.known;
    if (ban === null || bans.mode !== (ban.loggedOnly ? "log" : "on")) return null;
    return nowMs < ban.untilMs + bans.forgetAfterMs ? ban : null;
  }

  #isBanned(bans: BanPolicy, nowMs: number): boolean {
    return bans.mode === "on" && nowMs < (this.#lastBan(bans, nowMs)?.untilMs ?? 0);
  }

  #collects(bans: BanPolicy, nowMs: number): boolean {
    return bans.mode !== "off" && nowMs >= (this.#lastBan(bans, nowMs)?.untilMs ?? 0);
  }

  #learn(changes: Partial<Known>): void {
    this.known = { ...this.known, ...changes };
  }
}

/** The requests that a window has admitted, if it is open. */
function open(times: readonly number[], lengthMs: number, nowMs: number): readonly number[] {
  return nowMs < times[0]! + lengthMs ? times : [];
}

function enough(perMinute: number, bans: BanPolicy): number {
  return Math.max(Math.min(perMinute, bans.maxStrikes), bans.minStrikes);
}
