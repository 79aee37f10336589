import type { Ban, BanPolicy, Wait } from "./bans.ts";
import { banAt, isStrike, nextBan, strikesToBan, waitAfterStrikes } from "./bans.ts";
import { limitOf, type Limits } from "./plans.ts";
import type { PerWindow, Window, WindowName } from "./windows.ts";
import { mapWindows, WINDOW_NAMES, windowAt, windowEndMs } from "./windows.ts";

/** The rules that a limiter applies to the requests of a key or an address. */
export interface QuotaPolicy {
  readonly limits: Limits;
  /**
   * Grows with every change of the key. The limits of an older revision than the limiter state's are
   * ignored. Those of an equal one apply, because a deployment can change the limits of a plan.
   */
  readonly revision: number;
  /** The number of resets of the key. A larger number than the limiter state's empties the state. */
  readonly resets: number;
  /** True if repeated refusals lead to a ban: true for a key, false for an address. */
  readonly bans: boolean;
}

/** Everything that a limiter remembers of a key or an address. */
export interface LimiterState extends PerWindow<Window | null> {
  readonly limits: Limits;
  readonly revision: number;
  readonly resets: number;
  readonly ban: Ban | null;
  /** Not stored on disk, so a restart of the Durable Object loses it. */
  readonly wait: Wait | null;
}

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
  /** Unix time in milliseconds of the next admission if nobody else uses the key; `null`: now. */
  readonly retryAtMs: number | null;
  readonly banned: boolean;
}

/** The limiter's decision on one request, with the quota that is left after this request. */
export interface Decision extends Quota {
  readonly admitted: boolean;
  /** Unix time in milliseconds until which every request is refused; `null`: the next may not be. */
  readonly standsUntilMs: number | null;
  /** `null` if further refusals cannot lead to a ban. */
  readonly strikes: StrikeForecast | null;
  /**
   * The sequence number of the key's last cancellation in the last hour. Only the key's Durable
   * Object sets it, with near reads.
   */
  readonly lastCancellation?: number;
}

/** The limiter state after some requests, and the strikes and bans that these requests caused. */
interface Outcome {
  readonly state: LimiterState;
  readonly strikes: number;
  readonly bans: number;
}

export interface Decided extends Outcome {
  readonly decision: Decision;
}

/** Refusals that an isolate decided from memory. Times in Unix milliseconds. */
export interface ReportedWait {
  /** The time of the refusal with which the wait began. */
  readonly startedMs: number;
  readonly strikes: number;
  /** Meaningless while `strikes` is 0. */
  readonly oldestStrikeMs: number;
}

/** When a refused key will be banned. Times in Unix milliseconds. */
interface StrikeForecast {
  /** The time at which the key's wait began. */
  readonly waitedSinceMs: number;
  /** The time from which a refusal is a strike. */
  readonly countFromMs: number;
  /** The number of further strikes that lead to a ban: at least 1. */
  readonly left: number;
}

/**
 * Decides on one request. Pure: `nowMs` is the only clock.
 *
 * @param stored the limiter state after the last decision, or `null` for the first.
 * @param reported refusals by an isolate that `stored` does not include. Ignored if this request is
 *   admitted, because a late report must not ban a client that has waited.
 * @returns the decision; the limiter state after it, in which unchanged windows and bans are the
 *   same objects as in `stored`; and the strikes and bans caused by this request and by the reported
 *   refusals.
 */
export function decide(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  reported: ReportedWait | null = null,
): Decided {
  const before = stateAt(stored ?? stateUnder(null, policy), banPolicy, nowMs);
  const state = stateUnder(before, policy);
  return quotaOf(state, banPolicy, nowMs).retryAtMs === null
    ? admit(state, banPolicy, nowMs)
    : refuse(before, policy, banPolicy, nowMs, reported);
}

/** Returns the quota at a later `nowMs` if no request was counted since `quota.nowMs`. */
export function quotaLater<T extends Quota>(quota: T, nowMs: number): T {
  const later = (name: WindowName): WindowQuota => {
    const { limit, remaining, endsMs } = quota[name];
    const isOpen = remaining < limit && nowMs < endsMs;
    return isOpen ? quota[name] : windowQuota(name, null, limit, nowMs);
  };
  return { ...quota, nowMs, ...mapWindows(later) };
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

/** Returns the window with the fewest requests left; on a tie, the window that ends later. */
export function decisiveWindow(quota: Quota): WindowName {
  return WINDOW_NAMES.reduce((decisive, name) => {
    const [one, other] = [quota[decisive], quota[name]];
    const isTie = one.remaining === other.remaining;
    const isOther = isTie ? other.endsMs >= one.endsMs : other.remaining < one.remaining;
    return isOther ? name : decisive;
  });
}

/** Returns the quota at `nowMs` without counting a request. */
export function peek(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): Quota {
  return quotaOf(stateAt(stateUnder(stored, policy), banPolicy, nowMs), banPolicy, nowMs);
}

/** Returns the Unix time in milliseconds from which the state has the effect of an empty one. */
export function stateEndMs(state: LimiterState, banPolicy: BanPolicy): number {
  const windowEndsMs = WINDOW_NAMES.map((name) => {
    const window = state[name];
    return window === null ? 0 : windowEndMs(name, window);
  });
  const banEndMs = state.ban === null ? 0 : state.ban.untilMs + banPolicy.forgetAfterMs;
  return Math.max(banEndMs, ...windowEndsMs);
}

/** Returns the limiter state under `policy`: empty if `stored` is `null` or the key was reset. */
function stateUnder(stored: LimiterState | null, policy: QuotaPolicy): LimiterState {
  const { limits, revision, resets } = policy;
  if (stored === null || resets > stored.resets) {
    return { limits, revision, resets, ...mapWindows(() => null), ban: null, wait: null };
  }
  return revision < stored.revision ? stored : { ...stored, limits, revision };
}

/**
 * Corrects times in the state that lie in the future because the clock was set back. A window then
 * opens at `nowMs` and keeps its count, and a ban ends after the longest length of a ban. So a wrong
 * clock neither admits more than the limit nor delays a client longer than that.
 */
function stateAt(state: LimiterState, banPolicy: BanPolicy, nowMs: number): LimiterState {
  const notAhead = (window: Window | null) =>
    window !== null && window.openedMs > nowMs ? { ...window, openedMs: nowMs } : window;
  const latestMs = nowMs + banPolicy.longestBanMs;
  const { ban, wait } = state;
  return {
    ...state,
    ...mapWindows((name) => notAhead(state[name])),
    ban: ban !== null && ban.untilMs > latestMs ? { ...ban, untilMs: latestMs } : ban,
    wait: wait && {
      ...wait,
      startedMs: Math.min(wait.startedMs, nowMs),
      firstStrikeMs: Math.min(wait.firstStrikeMs, nowMs),
    },
  };
}

function quotaOf(state: LimiterState, banPolicy: BanPolicy, nowMs: number): Quota {
  const windows = mapWindows((name) =>
    windowQuota(name, state[name], limitOf(state.limits, name), nowMs),
  );
  const ban = banAt(state.ban, banPolicy, nowMs);
  const bannedUntilMs = ban === null || ban.loggedOnly ? 0 : ban.untilMs;
  let retryAtMs = bannedUntilMs;
  for (const name of WINDOW_NAMES) {
    const { remaining, endsMs } = windows[name];
    if (remaining === 0) retryAtMs = Math.max(retryAtMs, endsMs);
  }
  return {
    nowMs,
    ...windows,
    retryAtMs: retryAtMs > nowMs ? retryAtMs : null,
    banned: bannedUntilMs > nowMs,
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

function admit(before: LimiterState, banPolicy: BanPolicy, nowMs: number): Decided {
  const countIn = (name: WindowName): Window => {
    const { openedMs, count } = windowAt(name, before[name], nowMs);
    return { openedMs, count: count + 1 };
  };
  const state = { ...before, ...mapWindows(countIn), wait: null };
  const quota = quotaOf(state, banPolicy, nowMs);
  const decision = { ...quota, admitted: true, standsUntilMs: null, strikes: null };
  return { state, strikes: 0, bans: 0, decision };
}

/** Refuses a request. First counts the reported refusals that belong to the key's current wait. */
function refuse(
  before: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  reported: ReportedWait | null,
): Decided {
  let outcome: Outcome = { state: before, strikes: 0, bans: 0 };
  // Count the reported refusals before the new policy applies: the isolate may have refused these
  // requests under an earlier policy.
  if (reported !== null && collectsStrikes(before, policy, banPolicy, nowMs)) {
    outcome = countReported(outcome, reported, banPolicy, nowMs);
  }
  outcome = { ...outcome, state: stateUnder(outcome.state, policy) };
  if (collectsStrikes(outcome.state, policy, banPolicy, nowMs)) {
    outcome = countRefusal(outcome, banPolicy, nowMs);
  }
  const { state } = outcome;
  const quota = quotaOf(state, banPolicy, nowMs);
  const decision = {
    ...quota,
    admitted: false,
    standsUntilMs: quota.banned ? (state.ban?.untilMs ?? null) : quota.retryAtMs,
    strikes: forecast(state, policy, banPolicy, nowMs),
  };
  return { ...outcome, decision };
}

/**
 * Returns the Unix time in milliseconds at which the earliest full window opened. A wait that was
 * lost because the Durable Object was evicted cannot have begun earlier.
 */
function fullSinceMs(state: LimiterState, nowMs: number): number {
  const openedMs = WINDOW_NAMES.map((name) => {
    const window = windowAt(name, state[name], nowMs);
    return window.count >= limitOf(state.limits, name) ? window.openedMs : Infinity;
  });
  return Math.min(...openedMs);
}

/** Returns whether a refusal can be a strike: not during a ban, nor of an address. */
function collectsStrikes(
  state: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): boolean {
  const banEndMs = banAt(state.ban, banPolicy, nowMs)?.untilMs ?? 0;
  return policy.bans && banPolicy.mode !== "off" && banEndMs <= nowMs;
}

/** Counts reported refusals, unless they belong to another wait than the key's current one. */
function countReported(
  before: Outcome,
  { startedMs, strikes, oldestStrikeMs }: ReportedWait,
  banPolicy: BanPolicy,
  nowMs: number,
): Outcome {
  const { state } = before;
  const isOfFullWindow = startedMs >= fullSinceMs(state, nowMs);
  const restored = isOfFullWindow ? { startedMs, strikes: 0, firstStrikeMs: nowMs } : null;
  const wait = state.wait ?? restored;
  if (wait === null) return before;
  const areStrikes = strikes > 0 && isStrike(wait, banPolicy, oldestStrikeMs);
  return areStrikes
    ? addStrikes(before, wait, strikes, oldestStrikeMs, banPolicy, nowMs)
    : addStrikes(before, wait, 0, nowMs, banPolicy, nowMs);
}

/** Begins a wait with a refusal at `nowMs`, or counts the refusal in the key's wait. */
function countRefusal(before: Outcome, banPolicy: BanPolicy, nowMs: number): Outcome {
  const { wait } = before.state;
  const begun = { startedMs: nowMs, strikes: 0, firstStrikeMs: nowMs };
  const strikes = wait !== null && isStrike(wait, banPolicy, nowMs) ? 1 : 0;
  return addStrikes(before, wait ?? begun, strikes, nowMs, banPolicy, nowMs);
}

/** Adds strikes to the key's wait, and begins a ban if the key now has enough of them. */
function addStrikes(
  before: Outcome,
  stored: Wait,
  strikes: number,
  oldestMs: number,
  banPolicy: BanPolicy,
  nowMs: number,
): Outcome {
  const wait = waitAfterStrikes(stored, banPolicy, strikes, oldestMs, nowMs);
  const state = { ...before.state, wait };
  const after = { state, strikes: before.strikes + strikes, bans: before.bans };
  if (wait.strikes < strikesToBan(banPolicy, state.limits.perMinute)) return after;
  const ban = nextBan(banAt(state.ban, banPolicy, nowMs), banPolicy, nowMs);
  return {
    ...after,
    state: { ...state, ban, wait: { ...wait, strikes: 0 } },
    bans: before.bans + 1,
  };
}

function forecast(
  state: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): StrikeForecast | null {
  const { wait, limits } = state;
  if (wait === null || !collectsStrikes(state, policy, banPolicy, nowMs)) return null;
  return {
    waitedSinceMs: wait.startedMs,
    countFromMs: wait.startedMs + banPolicy.graceMs,
    left: strikesToBan(banPolicy, limits.perMinute) - wait.strikes,
  };
}
