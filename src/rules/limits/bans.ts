/** `log`: bans are logged but refuse no request. `off`: there are no strikes and no bans. */
export const BAN_MODES = ["on", "log", "off"] as const;

/** The rules that turn repeated refusals into a ban (docs/limits.md, Bans). */
export interface BanPolicy {
  readonly mode: (typeof BAN_MODES)[number];
  /** Refusals this soon after the first are no strikes: the first 429 may not have arrived yet. */
  readonly graceMs: number;
  /** Strikes lead to a ban only if all of them fall within this time after the first strike. */
  readonly strikeWindowMs: number;
  /** A ban takes as many strikes as the key's limit per minute, but at least this many. */
  readonly minStrikes: number;
  /** A ban never takes more strikes than this, even if the key's limit per minute is higher. */
  readonly maxStrikes: number;
  readonly firstBanMs: number;
  readonly longestBanMs: number;
  /** Earlier bans are forgotten this long after the key's last ban ends. */
  readonly forgetAfterMs: number;
}

/** The time from a key's first refusal to its next admission. */
export interface Wait {
  /** Unix time in milliseconds of the refusal with which this wait began. */
  readonly startedMs: number;
  readonly strikes: number;
  /** Unix time in milliseconds; meaningless while `strikes` is 0. */
  readonly firstStrikeMs: number;
}

export interface Ban {
  /** Unix time in milliseconds at which the ban began. */
  readonly beganMs: number;
  /** Unix time in milliseconds at which the ban ends or ended. */
  readonly untilMs: number;
  /** The number of consecutive bans of the key, including this one: at least 1. */
  readonly number: number;
  /** Set if the ban began in mode `log`: it refuses no request, even if the mode is `on` later. */
  readonly loggedOnly?: true | undefined;
}

/** Returns the ban, or `null` if it is forgotten at `nowMs` or began in another mode. */
export function banAt(stored: Ban | null, policy: BanPolicy, nowMs: number): Ban | null {
  const { mode, forgetAfterMs } = policy;
  if (stored === null || nowMs >= stored.untilMs + forgetAfterMs) return null;
  return mode === (stored.loggedOnly ? "log" : "on") ? stored : null;
}

/** Returns the ban that begins at `nowMs`: twice as long as `earlier`, up to the policy's limit. */
export function nextBan(earlier: Ban | null, policy: BanPolicy, nowMs: number): Ban {
  const number = (earlier?.number ?? 0) + 1;
  const lengthMs = Math.min(policy.firstBanMs * 2 ** (number - 1), policy.longestBanMs);
  const ban = { beganMs: nowMs, untilMs: nowMs + lengthMs, number };
  return policy.mode === "log" ? { ...ban, loggedOnly: true } : ban;
}
