import { expect } from "vitest";
import { dayText } from "../../../src/rules/days.ts";
import { decide, type Decision } from "../../../src/rules/limits/decision.ts";
import { type LimiterState, stateEndMs } from "../../../src/rules/limits/limiter-state.ts";
import { isSameLimits } from "../../../src/rules/limits/plans.ts";
import { countUsage, type Usage } from "../../../src/worker/usage/day-usage.ts";
import { expectSame } from "../../rules/limits/follows-the-rules.ts";
import { type Happened, TIMEOUT_MS, type World } from "./world.ts";

/** The part of the state that an answer promises to be on disk. */
function durable(state: LimiterState | null): string {
  const { minute = null, day = null, ban = null, revision = -1, resets = 0 } = state ?? {};
  return JSON.stringify({ minute, day, ban, revision, resets });
}

const TOTALS = ["admitted", "refused", "strikes", "bans", "peak_minute", "peak_day"];

/**
 * The object decides on each call as the rules do, in the order of arrival, and once if the call is
 * repeated. When an answer leaves, its decision is on disk, and no answer waits for more than two
 * writes. A restart loses only what is not on disk. What is deleted has no effect any more. The
 * object logs and reports what it has counted.
 *
 * @returns the number of decisions.
 */
export function objectFollowsTheRules(world: World): number {
  let state: LimiterState | null = null;
  const answers = new Map<string, readonly Decision[]>();
  /** What was on disk when an answer left, until it is the state after this call or a later one. */
  let onDisk: string[] = [];
  let usage: Usage = [];
  const reported = { days: new Map<string, readonly number[]>(), bans: new Set<unknown>() };
  const bans = { begun: new Set<unknown>(), inMemory: new Set<unknown>(), owed: new Set() };
  const logged: string[] = [];
  let decided = 0;
  const begin = (restored: LimiterState | null) => {
    expectSame(onDisk, []);
    state = restored;
    answers.clear();
    bans.inMemory.clear();
  };
  const decideOn = (arrival: Happened<"arrival">) =>
    Array.from({ length: arrival.requests }, (_, n) => {
      const [wait, refused] = n === 0 ? [arrival.wait, arrival.refusals] : [null, 0];
      const after = decide(state, arrival.policy, world.bans, arrival.nowMs, wait);
      const { decision, strikes, newBan } = after;
      if (state !== null && after.state.resets > state.resets) logged.push("limiter_reset");
      if (newBan !== null) logged.push(newBan.loggedOnly ? "would_ban" : "banned");
      const banned = newBan === null || newBan.loggedOnly ? 0 : 1;
      if (banned) for (const of of [bans.begun, bans.inMemory]) of.add(newBan?.beganMs);
      usage = countUsage(usage, decision, { refused, strikes, bans: banned });
      ({ state } = after);
      decided += 1;
      return decision;
    });
  for (const one of world.history) {
    if (one.what === "arrival") {
      const expected = answers.get(one.nonce) ?? decideOn(one);
      answers.set(one.nonce, expected);
      if (one.left !== null) {
        expectSame(one.left.answer, expected);
        if (one.left.tookMs > 2 * world.diskMs) expect.fail("An answer waited.");
        onDisk.push(durable(one.left.disk.limiter));
        for (const beganMs of bans.inMemory) bans.owed.add(beganMs);
      }
      onDisk = onDisk.filter((disk) => disk !== durable(state));
    } else if (one.what === "restart") {
      begin(one.disk.limiter);
      // The object may have forgotten a day that is over, once it was reported.
      const isKept = ({ day }: Usage[number]) => one.disk.usage.some((kept) => kept.day === day);
      const over = usage.filter((of) => !isKept(of) && reported.days.has(dayText(of.day)));
      usage = [...over, ...one.disk.usage];
    } else if (one.what === "deletion") {
      const endMs = state === null ? 0 : stateEndMs(state, world.bans);
      if (endMs > one.nowMs) expect.fail("The object deleted what still had an effect.");
      begin(null);
    } else if (one.what === "report") {
      for (const row of one.rows) {
        if (row["began_at"] !== undefined) reported.bans.add(row["began_at"]);
        else {
          const before = reported.days.get(String(row["day"]));
          const totals = TOTALS.map((name, n) => Math.max(Number(row[name]), before?.[n] ?? 0));
          reported.days.set(String(row["day"]), totals);
        }
      }
    }
  }
  for (const beganMs of bans.inMemory) bans.owed.add(beganMs);
  begin(null);
  const events = ["limiter_reset", "would_ban", "banned"];
  expectSame(
    world.object.events.filter((event) => events.includes(event)),
    logged,
  );
  for (const beganMs of reported.bans) expectSame(bans.begun.has(beganMs), true);
  for (const beganMs of bans.owed) expectSame(reported.bans.has(beganMs), true);
  // If the clock is set back, the usage of an earlier day may begin at 0 again.
  if (world.wasClockSet) return decided;
  const counted = usage.map(({ day, peakMinute, peakDay, ...of }) => {
    const totals = [of.admitted, of.refused, of.strikes, of.bans, peakMinute, peakDay];
    return [dayText(day), totals] as const;
  });
  expectSame(reported.days, new Map(counted));
  return decided;
}

/** A call is sent again only after a temporary failure, at most twice, soon, and always in time. */
export function callsAreRepeatedInTime({ history }: World): void {
  const ends = history.filter((one) => one.what === "end");
  for (const all of Map.groupBy(ends, ({ nonce }) => nonce).values()) {
    const deadlineMs = all[0]!.atMs + TIMEOUT_MS;
    for (const [index, { error, endedMs }] of all.entries()) {
      const isTemporary = error?.retryable === true && !error.overloaded;
      const [earliestMs, latestMs] = [endedMs + 50 * (index + 1), endedMs + 100 * (index + 1)];
      const next = all[index + 1]?.atMs;
      const isRight =
        next === undefined
          ? !isTemporary || index === 2 || latestMs >= deadlineMs
          : isTemporary && next >= earliestMs && next <= latestMs && next < deadlineMs;
      if (!isRight) expect({ all, index }).toBe("repeated in time, or not at all");
    }
  }
}

type LastAnswer = Happened<"end"> & { readonly askedMs: number };

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
  const inIsolates = history.filter((one) => "isolate" in one);
  for (const [isolate, life] of Map.groupBy(inIsolates, (one) => one.isolate)) {
    let last: LastAnswer | null = null;
    let alone: LimiterState | null = null;
    let isReached = false;
    let underWay = 0;
    /** When a call that may be sent again ends at the latest. */
    let retriedUntilMs = -Infinity;
    let failedMs = -Infinity;
    const askedMs = new Map<string, number>();
    const undelivered = new Map<Decision, number>();
    const reports = new Map<string, number>();
    const lostReports = new Set<string>();
    const repeats = { most: 0, least: 0 };
    for (const [index, one] of life.entries()) {
      if (one.what === "attempt") {
        if (!askedMs.has(one.nonce)) askedMs.set(one.nonce, one.atMs);
        underWay += 1;
        isReached = false;
      } else if (one.what === "arrival") {
        reports.set(one.nonce, one.refusals);
        if ((one.wait?.strikes ?? 0) > one.refusals) expect.fail("Strikes were reported twice.");
      } else if (one.what === "end") {
        const sinceMs = askedMs.get(one.nonce)!;
        const isInTime = one.endedMs - sinceMs < TIMEOUT_MS;
        underWay -= 1;
        isReached = one.answer !== null || one.error?.overloaded === true;
        isReached &&= underWay === 0 && isInTime && one.endedMs >= retriedUntilMs;
        if (one.answer === null) failedMs = one.endedMs;
        const mayRetry = one.error?.retryable === true && !one.error.overloaded;
        if (mayRetry) retriedUntilMs = Math.max(retriedUntilMs, sinceMs + TIMEOUT_MS);
        if (one.answer !== null && isInTime) lostReports.delete(one.nonce);
        else if (one.refusals > 0) lostReports.add(one.nonce);
        if (!isInTime || one.answer === null) continue;
        for (const decision of one.answer) undelivered.set(decision, one.policy.revision);
        last = { ...one, askedMs: sinceMs };
      } else if (one.what === "request") {
        expectSame(one.isRefusing, stands(last, one));
        const isCalled = life[index + 1]?.what === "attempt";
        if (isReached && !one.isRefusing && !isCalled) expect.fail("No call was sent.");
      } else {
        counts[one.decidedBy] += 1;
        if (one.decidedBy === "memory") {
          if (!stands(last, one)) expect.fail("A refusal has outlived its end.");
          const endMs = last!.decidedWorldMs + waitMs(last!.answer!.at(-1)!);
          const lateMs = one.worldMs + waitMs(one.decision!) - endMs;
          if (!(lateMs >= 0 && lateMs <= 1_000)) expect(lateMs).toBe("from 0 to 1000");
          const sawFailure = one.atMs >= one.sentMs + TIMEOUT_MS || failedMs >= one.sentMs;
          repeats.most += 1;
          repeats.least += Number(!sawFailure);
        } else if (one.decidedBy === "object") {
          const revision = undelivered.get(one.decision!);
          if (!undelivered.delete(one.decision!)) expect.fail("Two requests share one decision.");
          if (revision! < one.policy.revision) expect.fail("An outdated key version decided.");
        } else if (one.decidedBy === "fallback") {
          const { state, decision } = decide(alone, one.policy, bans, one.atMs);
          alone = state;
          expectSame(one.decision, decision);
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
  last: LastAnswer | null,
  { policy, atMs: nowMs }: Happened<"request" | "response">,
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
