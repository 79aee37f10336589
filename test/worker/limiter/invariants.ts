import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { dayText } from "../../../src/rules/days.ts";
import { decide, type Decision } from "../../../src/rules/limits/decision.ts";
import { isSameLimits } from "../../../src/rules/limits/plans.ts";
import { type LimiterState, stateEndMs } from "../../../src/rules/limits/limiter-state.ts";
import { countUsage, type Usage } from "../../../src/worker/usage/day-usage.ts";
import type { Arrival, Attempt, Isolate, Request, World } from "./world.ts";
import { TIMEOUT_MS } from "./world.ts";

// The invariants of the limiter, as functions of what happened. `expect` is slower than a decision,
// so it is called only if values differ.

function expectSame(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
}

/** The part of the state that an answer promises to be on disk. */
function durable(state: LimiterState | null) {
  const { minute = null, day = null, ban = null, revision = -1, resets = 0 } = state ?? {};
  return { minute, day, ban, revision, resets };
}

/**
 * The object answers each call as the rules decide on the calls in the order of their arrival, and
 * decides on a repeated call once. When an answer leaves, the decision is on disk. A restart loses
 * nothing else than what is not on disk. What is deleted has no effect any more.
 *
 * @returns what the object must have counted: usage, begun bans, and events of its log.
 */
export function objectFollowsTheRules({ history, bans }: World) {
  let state: LimiterState | null = null;
  let answers = new Map<string, readonly Decision[]>();
  let leaving: unknown[] = [];
  let usage: Usage = [];
  const reported = reportedIn();
  const events = { banned: 0, would_ban: 0, limiter_reset: 0 };
  let decided = 0;

  const answerOf = ({ attempt, nowMs }: Arrival): readonly Decision[] =>
    Array.from({ length: attempt.requests }, (_, n) => {
      const before = state;
      const report = n === 0 ? attempt.wait : null;
      const { decision, strikes, newBan, ...after } = decide(
        before,
        attempt.policy,
        bans,
        nowMs,
        report,
      );
      state = after.state;
      const isEnforced = newBan !== null && !newBan.loggedOnly;
      events.banned += Number(isEnforced);
      events.would_ban += Number(newBan !== null && !isEnforced);
      events.limiter_reset += Number(before !== null && state.resets > before.resets);
      const refused = n === 0 ? attempt.refusals : 0;
      usage = countUsage(usage, decision, { refused, strikes, bans: Number(isEnforced) });
      decided += 1;
      return decision;
    });

  const begin = (restored: LimiterState | null) => {
    expectSame(leaving, []);
    state = restored;
    answers = new Map();
  };

  for (const happening of history) {
    if (happening.what === "report") reported.add(happening.rows);
    if (happening.what === "restart") {
      begin(happening.disk.limiter);
      const isForgotten = ({ day }: Usage[number]) => reported.days.has(dayText(day));
      const stored = happening.disk.usage;
      const kept = usage.filter((one) => !stored.some(({ day }) => day === one.day));
      usage = [...kept.filter(isForgotten), ...stored];
    }
    if (happening.what === "deletion") {
      const endMs = state === null ? 0 : stateEndMs(state, bans);
      if (endMs > happening.nowMs) expect.fail("The object deleted what still had an effect.");
      begin(null);
    }
    if (happening.what !== "arrival") continue;
    const { attempt, answer, disk } = happening.arrival;
    const expected = answers.get(attempt.nonce) ?? answerOf(happening.arrival);
    answers.set(attempt.nonce, expected);
    if (answer !== null) expectSame(answer, expected);
    // A later write may have stored later decisions too.
    if (answer !== null) leaving.push(durable(disk!.limiter));
    leaving = leaving.filter((stored) => !isDeepStrictEqual(stored, durable(state)));
  }
  begin(null);
  return { usage, events, reported, decided };
}

const TOTALS = ["admitted", "refused", "strikes", "bans", "peak_minute", "peak_day"] as const;

/** What the database says after these reports: it keeps the largest total of a day. */
function reportedIn() {
  const days = new Map<string, readonly number[]>();
  const bans = new Set<unknown>();
  const add = (rows: readonly Readonly<Record<string, unknown>>[]) => {
    for (const row of rows) {
      if (row["began_at"] !== undefined) bans.add(row["began_at"]);
      else {
        const before = days.get(String(row["day"]));
        const totals = TOTALS.map((name, n) => Math.max(Number(row[name]), before?.[n] ?? 0));
        days.set(String(row["day"]), totals);
      }
    }
  };
  return { days, bans, add };
}

/** After the last report, the database says what the object has counted, day by day. */
export function reportsAreWhatWasCounted(world: World): void {
  const { usage, events, reported } = objectFollowsTheRules(world);
  for (const [event, times] of Object.entries(events)) {
    const found = world.object.events.filter((one) => one === event).length;
    if (found !== times) expect({ [event]: found }).toEqual({ [event]: times });
  }
  // If the clock is set back, the usage of an earlier day may begin at 0 again.
  if (world.wasClockSet) return;
  const counted = usage.map(({ day, peakMinute, peakDay, ...of }) => [
    dayText(day),
    [of.admitted, of.refused, of.strikes, of.bans, peakMinute, peakDay],
  ]);
  expectSame(new Map(reported.days), new Map(counted as []));
  const wasKilled = world.history.some(({ what }) => what === "restart");
  if (!wasKilled) expectSame(reported.bans.size, events.banned);
}

/** A call is sent again only after a temporary failure, at most twice, soon, and always in time. */
export function callsAreRepeatedInTime({ history }: World): void {
  const attempts = history.flatMap((one) => (one.what === "attempt" ? [one.attempt] : []));
  for (const all of Map.groupBy(attempts, ({ nonce }) => nonce).values()) {
    const deadlineMs = all[0]!.sentMs + TIMEOUT_MS;
    for (const [index, { error, endedMs }] of all.entries()) {
      const isTemporary = error?.retryable === true && !error.overloaded;
      const [earliestMs, latestMs] = [50, 100].map((ms) => endedMs + ms * (index + 1));
      const next = all[index + 1]?.sentMs;
      const isRight =
        next === undefined
          ? !isTemporary || index === 2 || latestMs! >= deadlineMs
          : isTemporary && next >= earliestMs! && next <= latestMs! && next < deadlineMs;
      if (!isRight) expect({ all, index }).toBe("repeated in time, or not at all");
    }
  }
}

/** What an isolate may know of the key: the last answer that it received in time. */
interface Knowledge {
  readonly attempt: Attempt;
  readonly decision: Decision;
  readonly askedMs: number;
}

/**
 * An isolate repeats the last refusal that it received until it ends, no longer, and only if its
 * call was quick; it announces the same end, at most a second late. Each other request gets a decision
 * of its own from the object, for this version of the key or a later one. Only an isolate that cannot
 * reach the object decides alone, and then it keeps the limits itself.
 */
export function isolatesRepeatOnlyRefusals({ history, bans, isolates }: World) {
  const counts = { memory: 0, object: 0, fallback: 0, nobody: 0 };
  for (const isolate of new Set([...isolates, ...isolatesIn(history)])) {
    let last: Knowledge | null = null;
    let alone: LimiterState | null = null;
    let isReached = false;
    const underWay = new Set<Attempt>();
    const firstSentMs = new Map<string, number>();
    const undelivered = new Map<Decision, Attempt>();
    for (const [index, one] of history.entries()) {
      if (isolateOf(one) !== isolate) continue;
      if (one.what === "attempt") {
        const { nonce, sentMs } = one.attempt;
        if (!firstSentMs.has(nonce)) firstSentMs.set(nonce, sentMs);
        underWay.add(one.attempt);
        isReached = false;
      } else if (one.what === "end") {
        const { answer, endedMs, error, nonce } = one.attempt;
        const askedMs = firstSentMs.get(nonce)!;
        const isInTime = endedMs - askedMs < TIMEOUT_MS;
        underWay.delete(one.attempt);
        isReached =
          underWay.size === 0 && isInTime && (error === null || error?.overloaded === true);
        if (!isInTime || answer === null) continue;
        for (const decision of answer) undelivered.set(decision, one.attempt);
        last = { attempt: one.attempt, decision: answer.at(-1)!, askedMs };
      } else if (one.what === "request") {
        const { isRefusing, policy, sentMs } = one.request;
        expectSame(isRefusing, stands(last, policy, sentMs));
        const isCalled = history[index + 1]?.what === "attempt";
        if (isReached && !isRefusing && !isCalled) expect.fail("No call was sent.");
      } else if (one.what === "response") {
        const { policy, verdict, answeredMs, answeredWorldMs } = one.request;
        const { decision, decidedBy } = verdict;
        counts[decidedBy] += 1;
        if (decidedBy === "memory") {
          if (!stands(last, policy, answeredMs)) expect.fail("A refusal has outlived its end.");
          const toldMs = last!.attempt.decidedWorldMs + waitMsOf(last!.decision);
          const lateMs = answeredWorldMs + waitMsOf(decision!) - toldMs;
          if (!(lateMs >= 0 && lateMs <= 1_000)) expect(lateMs).toBe("from 0 to 1000");
        } else if (decidedBy === "object") {
          const attempt = undelivered.get(decision!);
          if (!undelivered.delete(decision!)) expect.fail("Two requests share one decision.");
          if (attempt!.policy.revision < policy.revision) expect.fail("An outdated key version.");
        } else if (decidedBy === "fallback") {
          const { state, ...expected } = decide(alone, policy, bans, answeredMs);
          alone = state;
          expectSame(decision, expected.decision);
        }
      }
    }
  }
  return counts;
}

function waitMsOf({ retryAtMs, nowMs }: Decision): number {
  return retryAtMs! - nowMs;
}

function isolateOf(one: World["history"][number]): Isolate | null {
  if (one.what === "request" || one.what === "response") return one.request.isolate;
  return one.what === "attempt" || one.what === "end" ? one.attempt.isolate : null;
}

function isolatesIn(history: World["history"]): Isolate[] {
  return history.flatMap((one) => isolateOf(one) ?? []);
}

/** Returns whether the object would certainly still refuse, as far as the isolate can know. */
function stands(last: Knowledge | null, policy: Attempt["policy"], nowMs: number): boolean {
  if (last === null) return false;
  const { attempt, decision, askedMs } = last;
  const { endedMs, policy: known } = attempt;
  return (
    !decision.admitted &&
    endedMs - askedMs <= 1_000 &&
    known.revision === policy.revision &&
    isSameLimits(known.limits, policy.limits) &&
    nowMs >= endedMs &&
    nowMs - Math.min(askedMs, endedMs) < decision.standsUntilMs! - decision.nowMs
  );
}

/** Each refusal from memory is reported exactly once, or not at all after a failure. */
export function refusalsAreReportedOnce({ history, isolates }: World): void {
  const reports = new Map<string, number>();
  const failures = new Map<Isolate, number>();
  const before = new Map<Request, number>();
  let isLost = isolatesIn(history).some((isolate) => !isolates.includes(isolate));
  let [most, least] = [0, 0];
  for (const one of history) {
    if (one.what === "arrival")
      reports.set(one.arrival.attempt.nonce, one.arrival.attempt.refusals);
    if (one.what === "end" && one.attempt.answer === null) {
      failures.set(one.attempt.isolate, (failures.get(one.attempt.isolate) ?? 0) + 1);
      isLost ||= one.attempt.refusals > 0;
    }
    if (one.what === "request") before.set(one.request, failures.get(one.request.isolate) ?? 0);
    if (one.what === "response" && one.request.verdict.decidedBy === "memory") {
      const { isolate, sentMs, answeredMs } = one.request;
      const sawFailure = (failures.get(isolate) ?? 0) > before.get(one.request)!;
      most += 1;
      least += Number(!sawFailure && answeredMs < sentMs + TIMEOUT_MS);
    }
  }
  const reported = [...reports.values()].reduce((sum, refusals) => sum + refusals, 0);
  if (reported > most) expect(reported).toBeLessThanOrEqual(most);
  if (!isLost && reported < least) expect(reported).toBeGreaterThanOrEqual(least);
}
