/** `log`: a ban is counted and logged, but refuses nobody. `off`: there are no strikes and no bans. */
export const BAN_MODES = ["on", "log", "off"] as const;
export type BanMode = (typeof BAN_MODES)[number];

/** How repeated refusals turn into a temporary ban (contract, section 5). Times in milliseconds. */
export interface BanPolicy {
  /** `on` if it is missing. */
  readonly mode?: BanMode;
  /** Refusals this soon after a wait began were in flight and are no strikes. */
  readonly graceMs: number;
  /** The time, from the first strike, within which the strikes must fall. */
  readonly strikeWindowMs: number;
  /** The fewest strikes that lead to a ban, however low the key's limit. */
  readonly minStrikes: number;
  /** The strikes that lead to a ban, however high the key's limit. */
  readonly maxStrikes: number;
  readonly firstBanMs: number;
  readonly longestBanMs: number;
  /** After this time without a ban, earlier ones are forgotten. */
  readonly forgetAfterMs: number;
}

/** From a first refusal to the next admission. */
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
  /** How many bans there have been, this one included: at least 1. */
  readonly number: number;
  /** The mode was `log`: it refuses nobody, even if the mode is `on` later. */
  readonly loggedOnly?: true | undefined;
}

/**
 * The ban as it stands at `nowMs`: never longer than the longest, and wiped when it is to be forgotten
 * or was made in another mode.
 */
export function banAt(stored: Ban | null, policy: BanPolicy, nowMs: number): Ban | null {
  const { mode = "on", forgetAfterMs } = policy;
  if (stored === null || nowMs >= stored.untilMs + forgetAfterMs) return null;
  if (mode !== (stored.loggedOnly ? "log" : "on")) return null;
  return { ...stored, untilMs: Math.min(stored.untilMs, nowMs + policy.longestBanMs) };
}

/** Whether a refusal at `nowMs` is a strike, not the beginning of a wait or in flight. */
export function isStrike(stored: Wait | null, policy: BanPolicy, nowMs: number): boolean {
  return stored !== null && nowMs - Math.min(stored.startedMs, nowMs) >= policy.graceMs;
}

/** Counts a refusal at `nowMs` as the beginning of a wait, as in flight, or as a strike. */
export function waitAfterRefusal(stored: Wait | null, policy: BanPolicy, nowMs: number): Wait {
  if (stored === null) return { startedMs: nowMs, strikes: 0, firstStrikeMs: nowMs };
  const wait = {
    startedMs: Math.min(stored.startedMs, nowMs),
    strikes: stored.strikes,
    firstStrikeMs: Math.min(stored.firstStrikeMs, nowMs),
  };
  if (!isStrike(stored, policy, nowMs)) return wait;
  const firstOfSeries = wait.strikes === 0 || nowMs - wait.firstStrikeMs >= policy.strikeWindowMs;
  return firstOfSeries
    ? { ...wait, strikes: 1, firstStrikeMs: nowMs }
    : { ...wait, strikes: wait.strikes + 1 };
}

/** How many strikes a key with this limit collects before it is banned. */
export function strikesToBan(policy: BanPolicy, perMinute: number): number {
  return Math.min(Math.max(perMinute, policy.minStrikes), policy.maxStrikes);
}

/** The ban that follows at `nowMs`: each twice as long as the one before it. */
export function nextBan(earlier: Ban | null, policy: BanPolicy, nowMs: number): Ban {
  const number = (earlier?.number ?? 0) + 1;
  const ban = { untilMs: nowMs + banLengthMs(policy, number), number };
  return policy.mode === "log" ? { ...ban, loggedOnly: true } : ban;
}

/** How long the ban of that number lasts, in milliseconds. */
export function banLengthMs(policy: BanPolicy, number: number): number {
  return Math.min(policy.firstBanMs * 2 ** (number - 1), policy.longestBanMs);
}
