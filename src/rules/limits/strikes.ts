import { banAt, type BanPolicy, nextBan, type Wait } from "./bans.ts";
import type { LimiterState } from "./limiter-state.ts";
import { limitOf } from "./plans.ts";
import { WINDOW_NAMES, windowAt } from "./windows.ts";

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
export interface StrikeForecast {
  readonly waitedSinceMs: number;
  /** The time from which a refusal is a strike. */
  readonly countFromMs: number;
  /** The number of further strikes that lead to a ban: at least 1. */
  readonly left: number;
}

/** Strikes to add to a wait. The wait may have begun with the refusal that is being counted. */
interface Strikes {
  readonly wait: Wait;
  readonly count: number;
  /** Unix time in milliseconds of the oldest strike, or of the decision if there are no strikes. */
  readonly oldestMs: number;
}

/** Returns the strikes in a report; `null` if strikes are not counted or the report is too old. */
export function reportedStrikes(
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
export function ownStrike(
  state: LimiterState,
  banPolicy: BanPolicy,
  nowMs: number,
): Strikes | null {
  if (!collectsStrikes(state, banPolicy, nowMs)) return null;
  const { wait } = state;
  const begun = { startedMs: nowMs, strikes: 0, firstStrikeMs: nowMs };
  const count = wait !== null && isStrike(wait, banPolicy, nowMs) ? 1 : 0;
  return { wait: wait ?? begun, count, oldestMs: nowMs };
}

/** Adds strikes to the key's wait, and begins a ban if the key now has enough of them. */
export function addStrikes(
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

export function forecast(
  state: LimiterState,
  banPolicy: BanPolicy,
  nowMs: number,
): StrikeForecast | null {
  const { wait, limits } = state;
  if (wait === null || !collectsStrikes(state, banPolicy, nowMs)) return null;
  return {
    waitedSinceMs: wait.startedMs,
    countFromMs: wait.startedMs + banPolicy.graceMs,
    left: strikesToBan(banPolicy, limits.perMinute) - wait.strikes,
  };
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

/** Returns whether a refusal at `nowMs` comes after the grace period, so that it is a strike. */
function isStrike(wait: Wait, policy: BanPolicy, nowMs: number): boolean {
  return nowMs - wait.startedMs >= policy.graceMs;
}

/**
 * Adds new strikes to a wait. If the strike window has ended since the oldest of them, ignores all
 * of them, because some may have come after that end. So a ban may begin late, but never early.
 *
 * @param oldestMs the time of the oldest of these strikes, at most `nowMs`.
 */
function waitAfterStrikes(
  wait: Wait,
  policy: BanPolicy,
  strikes: number,
  oldestMs: number,
  nowMs: number,
): Wait {
  const isSameSeries = wait.strikes > 0 && oldestMs - wait.firstStrikeMs < policy.strikeWindowMs;
  const firstStrikeMs = isSameSeries ? Math.min(wait.firstStrikeMs, oldestMs) : oldestMs;
  if (nowMs - firstStrikeMs >= policy.strikeWindowMs) return wait;
  return { ...wait, strikes: strikes + (isSameSeries ? wait.strikes : 0), firstStrikeMs };
}

/** Returns how many strikes lead to a ban of a key with this limit per minute. */
export function strikesToBan(policy: BanPolicy, perMinute: number): number {
  return Math.min(Math.max(perMinute, policy.minStrikes), policy.maxStrikes);
}
