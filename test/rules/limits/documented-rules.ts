import type { Ban, BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import { mapWindows, type PerWindow, WINDOW_NAMES } from "../../../src/rules/limits/windows.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";

type Times = readonly number[];

export interface Known {
  readonly policy: QuotaPolicy | null;
  /** The times of the requests that the last window of each kind has admitted. */
  readonly admittedMs: PerWindow<Times>;
  readonly ban: Ban | null;
  readonly waitingSinceMs: number | null;
  readonly strikesMs: Times;
}

const LENGTH_MS: PerWindow<number> = { minute: MINUTE_MS, day: DAY_MS };
const LIMIT = { minute: "perMinute", day: "perDay" } as const;
const NO_WAIT = { waitingSinceMs: null, strikesMs: [] };
const EMPTY: Known = { policy: null, admittedMs: { minute: [], day: [] }, ban: null, ...NO_WAIT };

/** Decides as docs/limits.md says, from the times of a key's requests. */
export class DocumentedRules {
  known: Known;
  #bans!: BanPolicy;
  #nowMs = 0;

  constructor(known = EMPTY) {
    this.known = known;
  }

  /** Returns the rules of who only knows a decision, received at `nowMs`. */
  static after(decision: Decision, policy: QuotaPolicy, nowMs: number): DocumentedRules {
    const sinceMs = nowMs - decision.nowMs;
    const admittedMs = mapWindows((name) => {
      const { limit, remaining, endsMs } = decision[name];
      return Array<number>(limit - remaining).fill(endsMs + sinceMs - LENGTH_MS[name]);
    });
    const { endsMs = 0, number = 0 } = decision.ban ?? {};
    const ban = decision.banned ? { beganMs: nowMs, untilMs: endsMs + sinceMs, number } : null;
    return new DocumentedRules({ policy, admittedMs, ban, ...NO_WAIT });
  }

  /** A ban survives a restart. Strikes do not. */
  restart(): void {
    this.#learn(NO_WAIT);
  }

  /** @param report strikes by an isolate, which count only if this request is refused. */
  request(asked: QuotaPolicy, bans: BanPolicy, nowMs: number, report: WaitReport | null = null) {
    this.#bans = bans;
    this.#setClock(nowMs);
    const { policy: before } = this.known;
    if (asked.resets > (before?.resets ?? 0)) this.#learn({ ...EMPTY, policy: asked });
    const policy = before !== null && asked.revision < before.revision ? before : asked;
    this.#learn({ policy });
    const { admittedMs, ban: banBefore } = this.known;
    const admitted = fullSinceMs(this.known, policy, nowMs) === Infinity && !this.#isBanned;
    let strikes = 0;
    if (admitted) {
      const andNow = mapWindows((name) => [...open(admittedMs, name, nowMs), nowMs]);
      this.#learn({ admittedMs: andNow, ...NO_WAIT });
    } else {
      if (report !== null) {
        // The isolate may have refused these requests under the policy before.
        const earlier = before ?? policy;
        const startedMs = nowMs - report.ageMs;
        const isOfThisWait = startedMs >= fullSinceMs(this.known, earlier, nowMs);
        const sinceMs = this.known.waitingSinceMs ?? (isOfThisWait ? startedMs : null);
        const oldestMs = nowMs - report.oldestStrikeAgeMs;
        strikes += this.#refuse(Array(report.strikes).fill(oldestMs), sinceMs, earlier);
      }
      strikes += this.#refuse([nowMs], this.known.waitingSinceMs ?? nowMs, policy);
    }
    const newBan = this.known.ban === banBefore ? null : this.known.ban;
    return { decision: this.#decision(admitted, policy), strikes, newBan };
  }

  /** After the clock was set back, windows and waits begin again, and a later ban is over. */
  #setClock(nowMs: number): void {
    this.#nowMs = nowMs;
    const { admittedMs, ban, waitingSinceMs, strikesMs } = this.known;
    const noLater = (times: Times) => times.map((ms) => Math.min(ms, nowMs));
    this.#learn({
      admittedMs: mapWindows((name) => noLater(admittedMs[name])),
      strikesMs: noLater(strikesMs),
      waitingSinceMs: waitingSinceMs && Math.min(waitingSinceMs, nowMs),
      ban: ban && ban.beganMs > nowMs ? { ...ban, beganMs: nowMs, untilMs: nowMs } : ban,
    });
  }

  /** Counts refusals in a wait. Returns how many of them are strikes. */
  #refuse(refusedMs: Times, waitingSinceMs: number | null, { limits }: QuotaPolicy): number {
    if (waitingSinceMs === null || !this.#collects) return 0;
    const [bans, nowMs] = [this.#bans, this.#nowMs];
    const strikes = refusedMs.filter((ms) => ms - waitingSinceMs >= bans.graceMs);
    const isOver = (ms: number) => (strikes[0] ?? nowMs) - ms >= bans.strikeWindowMs;
    const series = this.known.strikesMs.some(isOver) ? [] : this.known.strikesMs;
    const strikesMs = [...series, ...strikes].toSorted((one, other) => one - other);
    // Of strikes that may have come after the end of the series, none counts.
    const isLate = nowMs - (strikesMs[0] ?? nowMs) >= bans.strikeWindowMs;
    this.#learn(isLate ? { waitingSinceMs } : { waitingSinceMs, strikesMs });
    if (this.known.strikesMs.length >= enough(limits.perMinute, bans)) {
      const number = 1 + (this.#lastBan?.number ?? 0);
      const untilMs = nowMs + Math.min(bans.firstBanMs * 2 ** (number - 1), bans.longestBanMs);
      const mode = bans.mode === "log" ? { loggedOnly: true as const } : {};
      this.#learn({ ban: { beganMs: nowMs, untilMs, number, ...mode }, strikesMs: [] });
    }
    return strikes.length;
  }

  #decision(admitted: boolean, { limits }: QuotaPolicy): Decision {
    const [bans, nowMs] = [this.#bans, this.#nowMs];
    const { waitingSinceMs: waitedSinceMs, strikesMs } = this.known;
    const windows = windowsOf(this.known, nowMs);
    const full = Object.values(windows).filter(({ remaining }) => remaining === 0);
    const ban = this.#isBanned ? this.#lastBan! : null;
    const retryAtMs = Math.max(ban?.untilMs ?? 0, ...full.map(({ endsMs }) => endsMs)) || null;
    const isCounted = !admitted && waitedSinceMs !== null && this.#collects;
    const countFromMs = waitedSinceMs! + bans.graceMs;
    const left = enough(limits.perMinute, bans) - strikesMs.length;
    return {
      nowMs,
      ...windows,
      retryAtMs,
      banned: ban !== null,
      ...(ban && { ban: { endsMs: ban.untilMs, number: ban.number } }),
      admitted,
      standsUntilMs: admitted ? null : (ban?.untilMs ?? retryAtMs),
      strikes: isCounted ? { waitedSinceMs, countFromMs, left } : null,
    };
  }

  /** The last ban, unless it is forgotten or the mode has changed. */
  get #lastBan(): Ban | null {
    const { ban } = this.known;
    if (ban === null || this.#bans.mode !== (ban.loggedOnly ? "log" : "on")) return null;
    return this.#nowMs < ban.untilMs + this.#bans.forgetAfterMs ? ban : null;
  }

  get #isBanned(): boolean {
    return this.#bans.mode === "on" && !this.#collects;
  }

  get #collects(): boolean {
    return this.#bans.mode !== "off" && this.#nowMs >= (this.#lastBan?.untilMs ?? 0);
  }

  #learn(changes: Partial<Known>): void {
    this.known = { ...this.known, ...changes };
  }
}

/** The requests that a window has admitted, if it is open. */
function open(admittedMs: PerWindow<Times>, name: keyof PerWindow<Times>, nowMs: number): Times {
  return nowMs < admittedMs[name][0]! + LENGTH_MS[name] ? admittedMs[name] : [];
}

export function windowsOf({ policy, admittedMs }: Known, nowMs: number) {
  return mapWindows((name) => {
    const times = open(admittedMs, name, nowMs);
    const limit = policy?.limits[LIMIT[name]] ?? 1;
    const remaining = Math.max(0, limit - times.length);
    return { limit, remaining, endsMs: (times[0] ?? nowMs) + LENGTH_MS[name] };
  });
}

/** Returns when the first of the full windows opened; `Infinity` if none is full. */
function fullSinceMs(known: Known, policy: QuotaPolicy, nowMs: number): number {
  const windows = windowsOf({ ...known, policy }, nowMs);
  const full = WINDOW_NAMES.filter((name) => windows[name].remaining === 0);
  return Math.min(...full.map((name) => windows[name].endsMs - LENGTH_MS[name]));
}

const enough = (perMinute: number, bans: BanPolicy) =>
  Math.max(Math.min(perMinute, bans.maxStrikes), bans.minStrikes);
