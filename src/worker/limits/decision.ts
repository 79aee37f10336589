import type { Ban, BanPolicy, Wait } from "./bans.ts";
import { banAt, isStrike, nextBan, strikesToBan, waitAfterRefusal } from "./bans.ts";
import { isSameLimits, type Limits } from "./plans.ts";
import type { Window, WindowName } from "./windows.ts";
import { windowAt, windowEndMs } from "./windows.ts";

/** What a limiter must know of a key or an address to decide on one of its requests. */
export interface QuotaPolicy {
  readonly limits: Limits;
  /**
   * An older revision than the record's is ignored. At the same revision the request's limits apply,
   * because a deployment can change the limits of a plan without a change to any key.
   */
  readonly revision: number;
  /** How often the operator has reset the key: a larger number than the last one empties the record. */
  readonly resets: number;
  /** Whether refusals lead to a ban: for a key, not for an address. */
  readonly bans: boolean;
}

/** Everything a limiter remembers of a key or an address. */
export interface LimiterState {
  readonly limits: Limits;
  readonly revision: number;
  readonly resets: number;
  readonly minute: Window | null;
  readonly day: Window | null;
  readonly ban: Ban | null;
  /** Need not survive a restart. */
  readonly wait: Wait | null;
}

/** How much of a window is left. */
export interface WindowQuota {
  readonly limit: number;
  /** Requests left: never negative. */
  readonly remaining: number;
  /** Unix time in milliseconds. */
  readonly endsMs: number;
}

/** What is left of both windows at `nowMs`. */
export interface Quota {
  readonly nowMs: number;
  readonly minute: WindowQuota;
  readonly day: WindowQuota;
  /** Unix time in milliseconds from which a request is admitted if nothing else is; `null`: now. */
  readonly retryAtMs: number | null;
  readonly banned: boolean;
}

/** The answer to one request: its quota describes what is left after it. */
export interface Decision extends Quota {
  readonly admitted: boolean;
  /**
   * Unix time in milliseconds until which further requests are answered like this one, as far as
   * time alone decides; `null` where the next may be answered differently.
   */
  readonly standsUntilMs: number | null;
  /** What further refusals will mean; `null` where they mean nothing. */
  readonly strikes: StrikeForecast | null;
}

/** A record after one or more requests, and what they have led to. */
interface Outcome {
  readonly record: LimiterState;
  readonly strikes: number;
  readonly bans: number;
}

/** The outcome of one request. */
export interface Decided extends Outcome {
  readonly decision: Decision;
}

/** How far a refused key is from a ban. */
export interface StrikeForecast {
  /** Unix time in milliseconds at which the wait began. */
  readonly waitedSinceMs: number;
  /** Unix time in milliseconds from which a refusal is a strike. */
  readonly countFromMs: number;
  /** How many strikes lead to a ban, at the most: at least 1. */
  readonly left: number;
}

/**
 * Decides on one request. Pure: `nowMs` is the only clock.
 *
 * @param stored the record that the last decision left, or `null` for the first.
 * @param refusedElsewhereMs when requests were refused that this record does not know of, in
 *   ascending Unix milliseconds: those of a wait that goes on count as refusals of that time, so
 *   that they never take an admission from somebody who has waited.
 * @returns the decision; the record after it, which is `stored` itself where nothing changed; and
 *   the strikes and bans that this request and those refused elsewhere have led to.
 */
export function decide(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  refusedElsewhereMs: readonly number[] = [],
): Decided {
  const begun = stateAt(stored ?? stateUnder(null, policy), banPolicy, nowMs);
  const record = stateUnder(begun, policy);
  return quotaOf(record, banPolicy, nowMs).retryAtMs === null
    ? admit(record, banPolicy, nowMs)
    : refuse(begun, policy, banPolicy, nowMs, refusedElsewhereMs);
}

/**
 * Answers a request again that `decide` has already counted, and counts nothing. A request that was
 * admitted stays admitted.
 *
 * @returns `null` if the request was refused and has room by now: it is to be decided anew.
 */
export function repeatDecision(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  wasAdmitted: boolean,
): Decision | null {
  const begun = stateAt(stored ?? stateUnder(null, policy), banPolicy, nowMs);
  const record = stateUnder(begun, policy);
  if (wasAdmitted) return admission(record, banPolicy, nowMs);
  const { retryAtMs } = quotaOf(record, banPolicy, nowMs);
  return retryAtMs === null ? null : refusal(record, policy, banPolicy, nowMs);
}

/** What is left at a later `nowMs` if nothing was counted since: a window that is not open opens then. */
export function quotaLater<T extends Quota>(quota: T, nowMs: number): T {
  const later = (name: WindowName): WindowQuota => {
    const { limit, remaining, endsMs } = quota[name];
    const isOpen = remaining < limit && nowMs < endsMs;
    return isOpen ? quota[name] : windowQuota(name, null, limit, nowMs);
  };
  return { ...quota, nowMs, minute: later("minute"), day: later("day") };
}

/** What is left of a key's limits if nothing is admitted for `pauseMs` milliseconds, whatever was counted. */
export function closedQuota({ limits }: QuotaPolicy, pauseMs: number, nowMs: number): Quota {
  const retryAtMs = nowMs + pauseMs;
  const closed = (limit: number): WindowQuota => ({ limit, remaining: 0, endsMs: retryAtMs });
  return {
    nowMs,
    minute: closed(limits.perMinute),
    day: closed(limits.perDay),
    retryAtMs,
    banned: false,
  };
}

/** The window that matters most: with the fewest requests left, on a tie the one that ends later. */
export function decisiveWindow({ minute, day }: Quota): WindowName {
  if (minute.remaining !== day.remaining)
    return minute.remaining < day.remaining ? "minute" : "day";
  return minute.endsMs > day.endsMs ? "minute" : "day";
}

/** What is left at `nowMs`, with nothing counted. */
export function peek(
  stored: LimiterState | null,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): Quota {
  return quotaOf(stateUnder(stored, policy), banPolicy, nowMs);
}

/** Unix time in milliseconds from which a record says nothing that an empty one does not. */
export function stateEndMs(record: LimiterState, banPolicy: BanPolicy): number {
  return Math.max(
    record.minute === null ? 0 : windowEndMs("minute", record.minute),
    record.day === null ? 0 : windowEndMs("day", record.day),
    record.ban === null ? 0 : record.ban.untilMs + banPolicy.forgetAfterMs,
  );
}

/** The record under the newer of its own policy and the one that came with the request. */
function stateUnder(stored: LimiterState | null, policy: QuotaPolicy): LimiterState {
  const { limits, revision, resets } = policy;
  if (stored === null || resets > stored.resets) {
    return { limits, revision, resets, minute: null, day: null, ban: null, wait: null };
  }
  if (revision < stored.revision) return stored;
  const isSame = revision === stored.revision && isSameLimits(limits, stored.limits);
  return isSame ? stored : { ...stored, limits, revision };
}

/** The record with the times in it that a clock which has gone back makes impossible brought to `nowMs`. */
function stateAt(record: LimiterState, banPolicy: BanPolicy, nowMs: number): LimiterState {
  const { minute, day, ban } = record;
  const isMinuteAhead = (minute?.openedMs ?? 0) > nowMs;
  const isDayAhead = (day?.openedMs ?? 0) > nowMs;
  const isBanAhead = (ban?.untilMs ?? 0) > nowMs + banPolicy.longestBanMs;
  if (!isMinuteAhead && !isDayAhead && !isBanAhead) return record;
  return {
    ...record,
    minute: isMinuteAhead ? windowAt("minute", minute, nowMs) : minute,
    day: isDayAhead ? windowAt("day", day, nowMs) : day,
    ban: isBanAhead ? banAt(ban, banPolicy, nowMs) : ban,
  };
}

function quotaOf(record: LimiterState, banPolicy: BanPolicy, nowMs: number): Quota {
  const minute = windowQuota("minute", record.minute, record.limits.perMinute, nowMs);
  const day = windowQuota("day", record.day, record.limits.perDay, nowMs);
  const fullEndsMs = [minute, day]
    .filter(({ remaining }) => remaining === 0)
    .map(({ endsMs }) => endsMs);
  const ban = banAt(record.ban, banPolicy, nowMs);
  const bannedUntilMs = ban === null || ban.loggedOnly ? 0 : ban.untilMs;
  const retryAtMs = Math.max(bannedUntilMs, ...fullEndsMs);
  return {
    nowMs,
    minute,
    day,
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

function countIn(name: WindowName, stored: Window | null, nowMs: number): Window {
  const window = windowAt(name, stored, nowMs);
  return { openedMs: window.openedMs, count: window.count + 1 };
}

function admit(record: LimiterState, banPolicy: BanPolicy, nowMs: number): Decided {
  const admitted: LimiterState = {
    ...record,
    minute: countIn("minute", record.minute, nowMs),
    day: countIn("day", record.day, nowMs),
    wait: null,
  };
  return { record: admitted, strikes: 0, bans: 0, decision: admission(admitted, banPolicy, nowMs) };
}

function admission(record: LimiterState, banPolicy: BanPolicy, nowMs: number): Decision {
  const quota = quotaOf(record, banPolicy, nowMs);
  return { ...quota, admitted: true, standsUntilMs: null, strikes: null };
}

/** Refuses a request, and counts those refused elsewhere in the same wait before it. */
function refuse(
  begun: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
  refusedElsewhereMs: readonly number[],
): Decided {
  const { wait } = begun;
  const fullMs = fullSinceMs(begun, nowMs);
  // Those were refused under the policy of that time, which may be an older one.
  const told = refusedElsewhereMs
    .filter((refusedMs) =>
      wait === null ? refusedMs >= fullMs : isStrike(wait, banPolicy, refusedMs),
    )
    .reduce<Outcome>(
      (before, refusedMs) => countRefusal(before, policy, banPolicy, Math.min(refusedMs, nowMs)),
      { record: begun, strikes: 0, bans: 0 },
    );
  const before = { ...told, record: stateUnder(told.record, policy) };
  const refused = countRefusal(before, policy, banPolicy, nowMs);
  return { ...refused, decision: refusal(refused.record, policy, banPolicy, nowMs) };
}

/**
 * The earliest time at which a wait can have begun that an eviction made the object forget: when the
 * full window opened. An idle object is evicted within the grace of a ban, so isolates tell it of the wait.
 */
function fullSinceMs({ minute, day, limits }: LimiterState, nowMs: number): number {
  const isFull = (name: WindowName, window: Window | null, limit: number) =>
    window !== null && windowAt(name, window, nowMs).count >= limit;
  return Math.min(
    isFull("minute", minute, limits.perMinute) ? (minute?.openedMs ?? Infinity) : Infinity,
    isFull("day", day, limits.perDay) ? (day?.openedMs ?? Infinity) : Infinity,
  );
}

function refusal(
  record: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): Decision {
  const quota = quotaOf(record, banPolicy, nowMs);
  const standsUntilMs = quota.banned ? (record.ban?.untilMs ?? null) : quota.retryAtMs;
  const strikes = collectsStrikes(record, policy, banPolicy, nowMs)
    ? forecast(record, banPolicy, nowMs)
    : null;
  return { ...quota, admitted: false, standsUntilMs, strikes };
}

/** Whether a refusal can be a strike: not during a ban, and not of a subject that is never banned. */
function collectsStrikes(
  record: LimiterState,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): boolean {
  const banEndMs = banAt(record.ban, banPolicy, nowMs)?.untilMs ?? 0;
  return policy.bans && banPolicy.mode !== "off" && banEndMs <= nowMs;
}

/** Counts a refusal; one that cannot be a strike changes nothing. */
function countRefusal(
  before: Outcome,
  policy: QuotaPolicy,
  banPolicy: BanPolicy,
  nowMs: number,
): Outcome {
  const { record, bans } = before;
  if (!collectsStrikes(record, policy, banPolicy, nowMs)) return before;
  const wait = waitAfterRefusal(record.wait, banPolicy, nowMs);
  const strikes = before.strikes + Number(isStrike(record.wait, banPolicy, nowMs));
  if (wait.strikes < strikesToBan(banPolicy, record.limits.perMinute)) {
    return { record: { ...record, wait }, strikes, bans };
  }
  const ban = nextBan(banAt(record.ban, banPolicy, nowMs), banPolicy, nowMs);
  return { record: { ...record, ban, wait: { ...wait, strikes: 0 } }, strikes, bans: bans + 1 };
}

function forecast(
  { wait, limits }: LimiterState,
  banPolicy: BanPolicy,
  nowMs: number,
): StrikeForecast {
  return {
    waitedSinceMs: wait?.startedMs ?? nowMs,
    countFromMs: (wait?.startedMs ?? nowMs) + banPolicy.graceMs,
    left: strikesToBan(banPolicy, limits.perMinute) - (wait?.strikes ?? 0),
  };
}
