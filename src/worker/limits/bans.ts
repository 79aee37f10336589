/** `log`: bans are counted and logged, but refuse nobody. `off`: there are no strikes and no bans. */
export const BAN_MODES = ["on", "log", "off"] as const;
export type BanMode = (typeof BAN_MODES)[number];

/** Turns repeated refusals into a temporary ban (docs/limits.md, Bans). Times in milliseconds. */
export interface BanPolicy {
  readonly mode: BanMode;
  /** Refusals within this time after a wait began were already on their way, so they are no strikes. */
  readonly graceMs: number;
  /** Strikes lead to a ban only if they fall within this time, counted from the first of them. */
  readonly strikeWindowMs: number;
  /** The fewest strikes that lead to a ban, however low the key's limit. */
  readonly minStrikes: number;
  /** The number of strikes that always leads to a ban, however high the key's limit. */
  readonly maxStrikes: number;
  readonly firstBanMs: number;
  readonly longestBanMs: number;
  /** Earlier bans are forgotten this long after the last one ends. */
  readonly forgetAfterMs: number;
}

/** The time from a first refusal to the next admission. */
export interface Wait {
  /** Unix time in milliseconds of the first refusal. */
  readonly startedMs: number;
  readonly strikes: number;
  /** Unix time in milliseconds; without meaning while there are no strikes. */
  readonly firstStrikeMs: number;
}

export interface Ban {
  /** Unix time in milliseconds at which the ban ends or ended. */
  readonly untilMs: number;
  /** The number of bans so far, this one included: at least 1. */
  readonly number: number;
  /** Set if the mode was `log`. Such a ban refuses nobody, even if the mode is `on` later. */
  readonly loggedOnly?: true | undefined;
}

/**
 * Returns the stored ban as it applies at `nowMs`, cut to the longest length. Returns `null` if the
 * ban is forgotten by then, or was made in another mode.
 */
export function banAt(stored: Ban | null, policy: BanPolicy, nowMs: number): Ban | null {
  const { mode, forgetAfterMs } = policy;
  if (stored === null || nowMs >= stored.untilMs + forgetAfterMs) return null;
  if (mode !== (stored.loggedOnly ? "log" : "on")) return null;
  return { ...stored, untilMs: Math.min(stored.untilMs, nowMs + policy.longestBanMs) };
}

/** Returns whether a refusal at `nowMs` is a strike: neither begins a wait nor falls into its grace. */
export function isStrike(stored: Wait | null, policy: BanPolicy, nowMs: number): boolean {
  return stored !== null && nowMs - Math.min(stored.startedMs, nowMs) >= policy.graceMs;
}

/** Begins a wait with a refusal at `nowMs`, or counts the refusal in the stored wait. */
export function waitAfterRefusal(stored: Wait | null, policy: BanPolicy, nowMs: number): Wait {
  if (stored === null) return { startedMs: nowMs, strikes: 0, firstStrikeMs: nowMs };
  const wait = {
    startedMs: Math.min(stored.startedMs, nowMs),
    strikes: stored.strikes,
    firstStrikeMs: Math.min(stored.firstStrikeMs, nowMs),
  };
  if (!isStrike(stored, policy, nowMs)) return wait;
  const isFirstOfSeries = wait.strikes === 0 || nowMs - wait.firstStrikeMs >= policy.strikeWindowMs;
  return isFirstOfSeries
    ? { ...wait, strikes: 1, firstStrikeMs: nowMs }
    : { ...wait, strikes: wait.strikes + 1 };
}

/** Returns how many strikes lead to a ban of a key with this limit. */
export function strikesToBan(policy: BanPolicy, perMinute: number): number {
  return Math.min(Math.max(perMinute, policy.minStrikes), policy.maxStrikes);
}

/** Makes the ban that begins at `nowMs`, twice as long as the one before it. */
export function nextBan(earlier: Ban | null, policy: BanPolicy, nowMs: number): Ban {
  const number = (earlier?.number ?? 0) + 1;
  const ban = { untilMs: nowMs + banLengthMs(policy, number), number };
  return policy.mode === "log" ? { ...ban, loggedOnly: true } : ban;
}

/** Returns how long the ban of this number lasts, in milliseconds. */
export function banLengthMs(policy: BanPolicy, number: number): number {
  return Math.min(policy.firstBanMs * 2 ** (number - 1), policy.longestBanMs);
}
