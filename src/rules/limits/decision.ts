import { banAt, type Ban, type BanPolicy } from "./bans.ts";
import { type LimiterState, type QuotaPolicy, stateAt, stateUnder } from "./limiter-state.ts";
import { limitOf } from "./plans.ts";
import {
  addStrikes,
  forecast,
  ownStrike,
  reportedStrikes,
  type StrikeForecast,
  type WaitReport,
} from "./strikes.ts";
import type { PerWindow, Window, WindowName } from "./windows.ts";
import { mapWindows, WINDOW_NAMES, WINDOW_SECONDS, windowAt, windowEndMs } from "./windows.ts";

export interface WindowQuota {
  readonly limit: number;
  /** The number of requests left: never negative. */
  readonly remaining: number;
  /** Unix time in milliseconds at which the window ends. */
  readonly endsMs: number;
}

/** The requests left in every window at `nowMs`. */
export interface Quota extends PerWindow<WindowQuota> {
  readonly nowMs: number;
  /** The earliest Unix time in milliseconds of the next admission; `null` if it is possible now. */
  readonly retryAtMs: number | null;
  readonly banned: boolean;
  /** Set while the key is banned. */
  readonly ban?: BanInForce | undefined;
}

/** A ban that refuses requests. */
export interface BanInForce {
  /** Unix time in milliseconds. */
  readonly endsMs: number;
  /** The number of consecutive bans of the key, including this one: at least 1. */
  readonly number: number;
}

/** The limiter's decision on one request, with the quota that is left after this request. */
export interface Decision extends Quota {
  readonly admitted: boolean;
  /** Unix time in milliseconds until which requests are certainly refused; `null` if admitted. */
  readonly standsUntilMs: number | null;
  /** `null` if the request is admitted, or while refusals cannot lead to a ban. */
  readonly strikes: StrikeForecast | null;
}

/** A decision on one request, and its effect on the limiter's state. */
export interface Decided {
  readonly decision: Decision;
  /** The state after the decision. Unchanged windows and bans are the same objects as before. */
  readonly state: LimiterState;
  /** The number of strikes that were counted, including those that an isolate reported. */
  readonly strikes: number;
  /** The ban that begins with this decision; `null` if none does. */
  readonly newBan: Ban | null;
}

/**
 * Decides on one request. Pure: `nowMs` is the only clock.
 *
 * @param stored the limiter state after the last decision, or `null` for the first.
 * @param report refusals by an isolate that `stored` does not include. Ignored if this request is
 *   admitted, because a late report must not ban a client that has waited.
 */
export function decide(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  report: WaitReport | null = null,
): Decided {
  const known = stateAt(stored ?? stateUnder(null, policy), nowMs);
  const current = stateUnder(known, policy);
  return quotaOf(current, banPolicy, nowMs).retryAtMs === null
    ? admit(current, banPolicy, nowMs)
    : refuse(known, policy, banPolicy, nowMs, report);
}

/** Returns the quota at a later `nowMs` if no request was counted since `quota.nowMs`. */
export function quotaLater<T extends Quota>(quota: T, nowMs: number): T {
  const later = (name: WindowName): WindowQuota => {
    const { limit, remaining, endsMs } = quota[name];
    const isOpen = remaining < limit && nowMs < endsMs;
    return isOpen ? quota[name] : windowQuota(name, null, limit, nowMs);
  };
  const { ban } = quota;
  const retryAtMs = quota.retryAtMs !== null && nowMs < quota.retryAtMs ? quota.retryAtMs : null;
  const banned = quota.banned && nowMs < (ban?.endsMs ?? Infinity);
  return {
    ...quota,
    nowMs,
    ...mapWindows(later),
    retryAtMs,
    banned,
    ban: banned ? ban : undefined,
  };
}

/**
 * Returns a limiter's state with this quota. Strikes and earlier bans are unknown.
 *
 * @param nowMs the time of the quota on the caller's clock.
 */
export function stateWith(quota: Quota, policy: QuotaPolicy, nowMs: number): LimiterState {
  const { limits, revision, resets } = policy;
  const laterMs = (ms: number) => nowMs + (ms - quota.nowMs);
  const windowOf = (name: WindowName): Window | null => {
    const { limit, remaining, endsMs } = quota[name];
    const openedMs = laterMs(endsMs) - WINDOW_SECONDS[name] * 1_000;
    return remaining < limit ? { openedMs, count: limit - remaining } : null;
  };
  const { ban: inForce } = quota;
  const ban = inForce
    ? { beganMs: nowMs, untilMs: laterMs(inForce.endsMs), number: inForce.number }
    : null;
  return { limits, revision, resets, ...mapWindows(windowOf), ban, wait: null };
}

/**
 * Returns whether one quota of a Durable Object is newer than another one. In the same millisecond,
 * fewer requests left are newer: a reset in between is the exception.
 */
export function isNewer(one: Quota, other: Quota): boolean {
  if (one.nowMs !== other.nowMs) return one.nowMs > other.nowMs;
  return one.day.remaining < other.day.remaining;
}

/** Returns the quota of a key whose requests are all refused for `pauseMs` milliseconds. */
export function closedQuota({ limits }: QuotaPolicy, pauseMs: number, nowMs: number): Quota {
  const retryAtMs = nowMs + pauseMs;
  return {
    nowMs,
    ...mapWindows((name) => ({ limit: limitOf(limits, name), remaining: 0, endsMs: retryAtMs })),
    retryAtMs,
    banned: false,
  };
}

/** Returns the quota at `nowMs` without counting a request. */
export function peek(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): Quota {
  return quotaOf(stateAt(stateUnder(stored, policy), nowMs), banPolicy, nowMs);
}

function quotaOf(state: LimiterState, banPolicy: BanPolicy, nowMs: number): Quota {
  const windows = mapWindows((name) =>
    windowQuota(name, state[name], limitOf(state.limits, name), nowMs),
  );
  const known = banAt(state.ban, banPolicy, nowMs);
  const isBanned = known !== null && !known.loggedOnly && known.untilMs > nowMs;
  const ban = isBanned ? { endsMs: known.untilMs, number: known.number } : null;
  const fullWindows = WINDOW_NAMES.map((name) => windows[name]).filter(
    (one) => one.remaining === 0,
  );
  const retryAtMs = Math.max(ban?.endsMs ?? 0, ...fullWindows.map(({ endsMs }) => endsMs));
  return {
    nowMs,
    ...windows,
    retryAtMs: retryAtMs > nowMs ? retryAtMs : null,
    banned: ban !== null,
    ...(ban && { ban }),
  };
}

function windowQuota(
  name: WindowName,
  stored: Window | null,
  limit: number,
  nowMs: number,
): WindowQuota {
  const window = windowAt(name, stored, nowMs);
  return { limit, remaining: Math.max(0, limit - window.count), endsMs: windowEndMs(name, window) };
}

function admit(current: LimiterState, banPolicy: BanPolicy, nowMs: number): Decided {
  const countIn = (name: WindowName): Window => {
    const { openedMs, count } = windowAt(name, current[name], nowMs);
    return { openedMs, count: count + 1 };
  };
  const state = { ...current, ...mapWindows(countIn), wait: null };
  const quota = quotaOf(state, banPolicy, nowMs);
  const decision = { ...quota, admitted: true, standsUntilMs: null, strikes: null };
  return { decision, state, strikes: 0, newBan: null };
}

/** Refuses a request. First counts the reported refusals that belong to the key's current wait. */
function refuse(
  known: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  report: WaitReport | null,
): Decided {
  // Count the reported refusals before the new policy applies: the isolate may have refused these
  // requests under an earlier policy.
  const reported = report && reportedStrikes(known, report, banPolicy, nowMs);
  const withReport = stateUnder(addStrikes(known, reported, banPolicy, nowMs), policy);
  const own = ownStrike(withReport, banPolicy, nowMs);
  const refused = addStrikes(withReport, own, banPolicy, nowMs);
  const quota = quotaOf(refused, banPolicy, nowMs);
  const decision = {
    ...quota,
    admitted: false,
    standsUntilMs: quota.banned ? (refused.ban?.untilMs ?? null) : quota.retryAtMs,
    strikes: forecast(refused, banPolicy, nowMs),
  };
  const strikes = (reported?.count ?? 0) + (own?.count ?? 0);
  const newBan = refused.ban === known.ban ? null : refused.ban;
  return { decision, state: refused, strikes, newBan };
}
