import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { dayText } from "../../../src/rules/days.ts";
import { decide, type Decision } from "../../../src/rules/limits/decision.ts";
import { type LimiterState, stateEndMs } from "../../../src/rules/limits/limiter-state.ts";
import { isSameLimits } from "../../../src/rules/limits/plans.ts";
import { countUsage, type Usage } from "../../../src/worker/usage/day-usage.ts";
import { type End, type Happening, type Isolate, TIMEOUT_MS, type World } from "./world.ts";

/** Calls `expect` only if the values differ, because `expect` is slower than a decision. */
function expectSame(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
}

/** The part of the state that an answer promises to be on disk. */
function durable(state: LimiterState | null) {
  const { minute = null, day = null, ban = null, revision = -1, resets = 0 } = state ?? {};
  return { minute, day, ban, revision, resets };
}

/**
 * The object decides on each call as the rules do, in the order of arrival, and once if the call is
 * repeated. When an answer leaves, its decision is on disk. A restart loses only what is not on
 * disk. What is deleted has no effect any more. The object logs and reports what it has counted.
 *
 * @returns the number of decisions.
 */
export function objectFollowsTheRules({ history, bans, wasClockSet, object }: World): number {
  let state: LimiterState | null = null;
  let answers = new Map<string, readonly Decision[]>();
  let stored: unknown[] = [];
  let usage: Usage = [];
  const reported = { days: new Map<string, readonly number[]>(), bans: new Set<unknown>() };
  const events = { banned: 0, would_ban: 0, limiter_reset: 0 };
  let decided = 0;

  const begin = (restored: LimiterState | null) => {
    expectSame(stored, []);
    state = restored;
    answers = new Map();
  };
  const decideOn = (arrival: Happening & { what: "arrival" }) =>
    Array.from({ length: arrival.requests }, (_, n) => {
      const before = state;
      const [wait, refused] = n === 0 ? [arrival.wait, arrival.refusals] : [null, 0];
      const after = decide(before, arrival.policy, bans, arrival.nowMs, wait);
      ({ state } = after);
      const { decision, strikes, newBan } = after;
      const isLogged = newBan?.loggedOnly === true;
      const banned = Number(newBan !== null && !isLogged);
      events.banned += banned;
      events.would_ban += Number(isLogged);
      events.limiter_reset += Number(before !== null && state.resets > before.resets);
      usage = countUsage(usage, decision, { refused, strikes, bans: banned });
      decided += 1;
      return decision;
    });

  for (const one of history) {
    if (one.what === "arrival") {
      const expected = answers.get(one.nonce) ?? decideOn(one);
      answers.set(one.nonce, expected);
      if (one.left !== null) {
        expectSame(one.left.answer, expected);
        stored.push(durable(one.left.disk.limiter));
      }
      // A write may also have stored the effect of later calls.
      stored = stored.filter((disk) => !isDeepStrictEqual(disk, durable(state)));
    } else if (one.what === "restart") {
      begin(one.disk.limiter);
      const { usage: days } = one.disk;
      // The object may have forgotten a day that is over, once it was reported.
      const over = usage.filter(({ day }) => !days.some((kept) => kept.day === day));
      usage = [...over.filter(({ day }) => reported.days.has(dayText(day))), ...days];
    } else if (one.what === "deletion") {
      const endMs = state === null ? 0 : stateEndMs(state, bans);
      if (endMs > one.nowMs) expect.fail("The object deleted what still had an effect.");
      begin(null);
    } else if (one.what === "report") {
      for (const row of one.rows) {
        if (row["began_at"] !== undefined) reported.bans.add(row["began_at"]);
        else {
          const day = String(row["day"]);
          const before = reported.days.get(day);
          const totals = TOTALS.map((name, n) => Math.max(Number(row[name]), before?.[n] ?? 0));
          reported.days.set(day, totals);
        }
      }
    }
  }
  begin(null);
  const logged = (name: string) => object.events.filter((event) => event === name).length;
  expectSame(Object.keys(events).map(logged), Object.values(events));
  // If the clock is set back, the usage of an earlier day may begin at 0 again.
  if (wasClockSet) return decided;
  const counted = usage.map(({ day, peakMinute, peakDay, ...of }) => [
    dayText(day),
    [of.admitted, of.refused, of.strikes, of.bans, peakMinute, peakDay],
  ]);
  expectSame(reported.days, new Map(counted as []));
  const wasKilled = history.some(({ what }) => what === "restart");
  if (!wasKilled) expectSame(reported.bans.size, events.banned);
  return decided;
}

const TOTALS = ["admitted", "refused", "strikes", "bans", "peak_minute", "peak_day"];

/** A call is sent again only after a temporary failure, at most twice, soon, and always in time. */
export function callsAreRepeatedInTime({ history }: World): void {
  const ends = history.filter((one) => one.what === "end");
  for (const all of Map.groupBy(ends, ({ nonce }) => nonce).values()) {
    const deadlineMs = all[0]!.sentMs + TIMEOUT_MS;
    for (const [index, { error, endedMs }] of all.entries()) {
      const isTemporary = error?.retryable === true && !error.overloaded;
      const [earliestMs, latestMs] = [endedMs + 50 * (index + 1), endedMs + 100 * (index + 1)];
      const next = all[index + 1]?.sentMs;
      const isRight =
        next === undefined
          ? !isTemporary || index === 2 || latestMs >= deadlineMs
          : isTemporary && next >= earliestMs && next <= latestMs && next < deadlineMs;
      if (!isRight) expect({ all, index }).toBe("repeated in time, or not at all");
    }
  }
}

/**
 * An isolate repeats the last refusal that it received until it ends, no longer, and only if its
 * call was quick. It announces the same end, at most a second late, and reports each repetition once,
 * or never after a failure. Any other request gets a decision of its own from the object, for this
 * version of the key or a later one. An isolate that cannot reach the object keeps the limits alone.
 *
 * @returns the number of decisions by each part of the limiter.
 */
export function isolatesRepeatOnlyRefusals({ history, bans, isolates }: World) {
  const counts = { memory: 0, object: 0, fallback: 0, nobody: 0 };
  const lives = Map.groupBy(
    history.filter((one) => "isolate" in one),
    ({ isolate }) => isolate,
  );
  for (const [isolate, life] of lives) {
    let last: (End & { readonly askedMs: number }) | null = null;
    let alone: LimiterState | null = null;
    let isReached = false;
    let underWay = 0;
    const askedMs = new Map<string, number>();
    const undelivered = new Map<Decision, number>();
    const reports = new Map<string, number>();
    const failedMs: number[] = [];
    const lostReports = new Set<string>();
    const repeats = { most: 0, least: 0 };
    for (const [index, one] of life.entries()) {
      if (one.what === "attempt") {
        if (!askedMs.has(one.nonce)) askedMs.set(one.nonce, one.sentMs);
        underWay += 1;
        isReached = false;
      } else if (one.what === "arrival") {
        reports.set(one.nonce, one.refusals);
        const strikes = one.wait?.strikes ?? 0;
        if (strikes > one.refusals) expect.fail("Strikes were reported twice.");
      } else if (one.what === "end") {
        const sinceMs = askedMs.get(one.nonce)!;
        const isInTime = one.endedMs - sinceMs < TIMEOUT_MS;
        underWay -= 1;
        isReached = underWay === 0 && isInTime && (one.answer !== null || !!one.error?.overloaded);
        if (one.answer === null) failedMs.push(one.endedMs);
        if (one.answer !== null && isInTime) lostReports.delete(one.nonce);
        else if (one.refusals > 0) lostReports.add(one.nonce);
        if (!isInTime || one.answer === null) continue;
        for (const decision of one.answer) undelivered.set(decision, one.policy.revision);
        last = { ...one, askedMs: sinceMs };
      } else if (one.what === "request") {
        expectSame(one.isRefusing, stands(last, one.policy, one.sentMs));
        const isCalled = life[index + 1]?.what === "attempt";
        if (isReached && !one.isRefusing && !isCalled) expect.fail("No call was sent.");
      } else {
        const { decision, policy, sentMs, answeredMs } = one;
        counts[one.decidedBy] += 1;
        if (one.decidedBy === "memory") {
          if (!stands(last, policy, answeredMs)) expect.fail("A refusal has outlived its end.");
          const endMs = last!.decidedWorldMs + waitMs(last!.answer!.at(-1)!);
          const lateMs = one.worldMs + waitMs(decision!) - endMs;
          if (!(lateMs >= 0 && lateMs <= 1_000)) expect(lateMs).toBe("from 0 to 1000");
          const sawFailure =
            answeredMs >= sentMs + TIMEOUT_MS || failedMs.some((ms) => ms >= sentMs);
          repeats.most += 1;
          repeats.least += Number(!sawFailure);
        } else if (one.decidedBy === "object") {
          const revision = undelivered.get(decision!);
          if (!undelivered.delete(decision!)) expect.fail("Two requests share one decision.");
          if (revision! < policy.revision) expect.fail("An outdated key version decided.");
        } else if (one.decidedBy === "fallback") {
          const { state, ...expected } = decide(alone, policy, bans, answeredMs);
          alone = state;
          expectSame(decision, expected.decision);
        }
      }
    }
    const reported = [...reports.values()].reduce((sum, refusals) => sum + refusals, 0);
    const mayLack = lostReports.size > 0 || !isolates.includes(isolate);
    const isRight = reported <= repeats.most && (mayLack || reported >= repeats.least);
    if (!isRight) expect(repeats).toStrictEqual({ reported });
    const logged = isolate.events.filter((event) => event === "refusals_unreported");
    expectSame(logged.length, lostReports.size);
  }
  return counts;
}

function waitMs({ retryAtMs, nowMs }: Decision): number {
  return retryAtMs! - nowMs;
}

/** Returns whether the object would certainly still refuse, as far as an isolate can know. */
function stands(
  last: (End & { readonly askedMs: number }) | null,
  policy: Isolate["policy"],
  nowMs: number,
): boolean {
  const { standsUntilMs = null, nowMs: decidedMs = 0 } = last?.answer?.at(-1) ?? {};
  if (last === null || standsUntilMs === null) return false;
  return (
    last.endedMs - last.askedMs <= 1_000 &&
    last.policy.revision === policy.revision &&
    isSameLimits(last.policy.limits, policy.limits) &&
    nowMs >= last.endedMs &&
    nowMs - Math.min(last.askedMs, last.endedMs) < standsUntilMs - decidedMs
  );
}
