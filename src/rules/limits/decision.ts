import type { Ban, BanPolicy, Wait } from "./bans.ts";
import { banAt, isStrike, nextBan, strikesToBan, waitAfterStrikes } from "./bans.ts";
import { limitOf, type Limits } from "./plans.ts";
import type { PerWindow, Window, WindowName } from "./windows.ts";
import { mapWindows, WINDOW_NAMES, windowAt, windowEndMs } from "./windows.ts";

/** The rules that a limiter applies to the requests of a key or an address. */
export interface QuotaPolicy {
  readonly limits: Limits;
  /**
   * Increases with every change of the key. The limiter ignores limits of an earlier revision. It
   * applies new limits of the same revision, because a deployment can change the limits of a plan.
   */
  readonly revision: number;
  /** How often the key was reset. When this number has increased, the limiter empties its state. */
  readonly resets: number;
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
  /** The earliest Unix time in milliseconds of the next admission; `null` if it is possible now. */
  readonly retryAtMs: number | null;
  readonly banned: boolean;
}

/** The limiter's decision on one request, with the quota that is left after this request. */
export interface Decision extends Quota {
  readonly admitted: boolean;
  /** Unix time in milliseconds until which requests are certainly refused; `null` if admitted. */
  readonly standsUntilMs: number | null;
  /** `null` if the request is admitted, or while refusals cannot lead to a ban. */
  readonly strikes: StrikeForecast | null;
  /**
   * The sequence number of the key's last cancellation. Only the key's Durable Object sets it, if
   * the cancellation was within the last hour and `LIST_READS` was `nearest`.
   */
  readonly lastCancellation?: number;
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
 * An isolate's report of refusals from its memory to the key's Durable Object. Contains ages instead
 * of times, because the clocks of the two may differ.
 */
export interface WaitReport {
  /** The age of the wait in milliseconds. A restarted Durable Object restores the wait from it. */
  readonly ageMs: number;
  readonly strikes: number;
  /** Milliseconds since the oldest of these strikes; meaningless while `strikes` is 0. */
  readonly oldestStrikeAgeMs: number;
}

/** The strikes that separate a refused key from a ban. All times are Unix milliseconds. */
interface StrikeForecast {
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
  const before = stateAt(stored ?? stateUnder(null, policy), nowMs);
  const state = stateUnder(before, policy);
  return quotaOf(state, banPolicy, nowMs).retryAtMs === null
    ? admit(state, banPolicy, nowMs)
    : refuse(before, policy, banPolicy, nowMs, report);
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

/** Returns the quota at `nowMs` without counting a request. */
export function peek(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): Quota {
  return quotaOf(stateAt(stateUnder(stored, policy), nowMs), banPolicy, nowMs);
}

/** Returns the Unix time in milliseconds from which the state has the effect of an empty one. */
export function stateEndMs(state: LimiterState, banPolicy: BanPolicy): number {
  const banEndMs = state.ban === null ? 0 : state.ban.untilMs + banPolicy.forgetAfterMs;
  return Math.max(banEndMs, ...WINDOW_NAMES.map((name) => windowEndMs(name, state[name])));
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
 * opens at `nowMs` and keeps its count; a ban ends at the latest after its own length. So the limit
 * is not exceeded, and no client waits longer than its window or ban lasts.
 */
function stateAt(state: LimiterState, nowMs: number): LimiterState {
  const notAhead = (window: Window | null) =>
    window !== null && window.openedMs > nowMs ? { ...window, openedMs: nowMs } : window;
  const { ban, wait } = state;
  return {
    ...state,
    ...mapWindows((name) => notAhead(state[name])),
    ban:
      ban !== null && ban.untilMs - nowMs > ban.lengthMs
        ? { ...ban, untilMs: nowMs + ban.lengthMs }
        : ban,
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
  const fullWindows = WINDOW_NAMES.map((name) => windows[name]).filter(
    (one) => one.remaining === 0,
  );
  const retryAtMs = Math.max(bannedUntilMs, ...fullWindows.map(({ endsMs }) => endsMs));
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
  return { decision, state, strikes: 0, newBan: null };
}

/** Refuses a request. First counts the reported refusals that belong to the key's current wait. */
function refuse(
  before: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  report: WaitReport | null,
): Decided {
  // Count the reported refusals before the new policy applies: the isolate may have refused these
  // requests under an earlier policy.
  const reported = report && reportedStrikes(before, report, banPolicy, nowMs);
  const current = stateUnder(addStrikes(before, reported, banPolicy, nowMs), policy);
  const own = ownStrike(current, banPolicy, nowMs);
  const state = addStrikes(current, own, banPolicy, nowMs);
  const quota = quotaOf(state, banPolicy, nowMs);
  const decision = {
    ...quota,
    admitted: false,
    standsUntilMs: quota.banned ? (state.ban?.untilMs ?? null) : quota.retryAtMs,
    strikes: forecast(state, banPolicy, nowMs),
  };
  const strikes = (reported?.count ?? 0) + (own?.count ?? 0);
  return { decision, state, strikes, newBan: state.ban === before.ban ? null : state.ban };
}

/**
 * Returns the Unix time in milliseconds at which the earliest full window opened; `Infinity` if none
 * is full. A wait begins only while a window is full, so a report of an earlier wait is outdated.
 */
function fullSinceMs(state: LimiterState, nowMs: number): number {
  const openedMs = WINDOW_NAMES.map((name) => {
    const window = windowAt(name, state[name], nowMs);
    return window.count >= limitOf(state.limits, name) ? window.openedMs : Infinity;
  });
  return Math.min(...openedMs);
}

function collectsStrikes(state: LimiterState, banPolicy: BanPolicy, nowMs: number): boolean {
  const banEndMs = banAt(state.ban, banPolicy, nowMs)?.untilMs ?? 0;
  return banPolicy.mode !== "off" && banEndMs <= nowMs;
}

/** Strikes to add to a wait. The wait may have begun with the refusal that is being counted. */
interface Strikes {
  readonly wait: Wait;
  readonly count: number;
  /** Unix time in milliseconds of the oldest strike, or of the decision if there are no strikes. */
  readonly oldestMs: number;
}

/** Returns the strikes in a report; `null` if strikes are not counted or the report is too old. */
function reportedStrikes(
  state: LimiterState,
  { ageMs, strikes, oldestStrikeAgeMs }: WaitReport,
  banPolicy: BanPolicy,
  nowMs: number,
): Strikes | null {
  if (!collectsStrikes(state, banPolicy, nowMs)) return null;
  const startedMs = nowMs - ageMs;
  const isOfFullWindow = startedMs >= fullSinceMs(state, nowMs);
  const restored = isOfFullWindow ? { startedMs, strikes: 0, firstStrikeMs: nowMs } : null;
  const wait = state.wait ?? restored;
  if (wait === null) return null;
  const oldestMs = nowMs - oldestStrikeAgeMs;
  if (strikes > 0 && isStrike(wait, banPolicy, oldestMs)) return { wait, count: strikes, oldestMs };
  return { wait, count: 0, oldestMs: nowMs };
}

/** Returns the strikes of one refusal at `nowMs`, 0 or 1; `null` if strikes are not counted. */
function ownStrike(state: LimiterState, banPolicy: BanPolicy, nowMs: number): Strikes | null {
  if (!collectsStrikes(state, banPolicy, nowMs)) return null;
  const { wait } = state;
  const begun = { startedMs: nowMs, strikes: 0, firstStrikeMs: nowMs };
  const count = wait !== null && isStrike(wait, banPolicy, nowMs) ? 1 : 0;
  return { wait: wait ?? begun, count, oldestMs: nowMs };
}

/** Adds strikes to the key's wait, and begins a ban if the key now has enough of them. */
function addStrikes(
  state: LimiterState,
  strikes: Strikes | null,
  banPolicy: BanPolicy,
  nowMs: number,
): LimiterState {
  if (strikes === null) return state;
  const { count, oldestMs } = strikes;
  const wait = waitAfterStrikes(strikes.wait, banPolicy, count, oldestMs, nowMs);
  if (wait.strikes < strikesToBan(banPolicy, state.limits.perMinute)) return { ...state, wait };
  const ban = nextBan(banAt(state.ban, banPolicy, nowMs), banPolicy, nowMs);
  return { ...state, ban, wait: { ...wait, strikes: 0 } };
}

function forecast(state: LimiterState, banPolicy: BanPolicy, nowMs: number): StrikeForecast | null {
  const { wait, limits } = state;
  if (wait === null || !collectsStrikes(state, banPolicy, nowMs)) return null;
  return {
    waitedSinceMs: wait.startedMs,
    countFromMs: wait.startedMs + banPolicy.graceMs,
    left: strikesToBan(banPolicy, limits.perMinute) - wait.strikes,
  };
}
