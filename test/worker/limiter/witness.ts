import { isDeepStrictEqual } from "node:util";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision, Quota } from "../../../src/rules/limits/decision.ts";
import type { LimiterState, QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { limitOf } from "../../../src/rules/limits/plans.ts";
import { WINDOW_NAMES, type WindowName } from "../../../src/rules/limits/windows.ts";
import type { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import type { ObjectDecision } from "../../../src/worker/limiter/object-call.ts";
import type { Verdict } from "../../../src/worker/limiter/limiter.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";
import { DocumentedRules, type Known } from "../../rules/limits/documented-rules.ts";
import { FAILURE } from "../../support/written-lines.ts";
import { NOTHING, plus, type Sum } from "../usage/usage-database.ts";
import type { Isolate } from "./world.ts";

export const TIMEOUT_MS = 5_000;

export type Call = Parameters<RateLimiter["admit"]>;
export type Answer = readonly ObjectDecision[];

/** The part of a state on disk that an answer promises: windows, ban, and version of the key. */
function durable(state: LimiterState | null): string {
  const { minute = null, day = null, ban = null, revision = -1, resets = 0 } = state ?? {};
  const windows = [minute, day].map((window) => window && [window.openedMs, window.count]);
  return JSON.stringify([...windows, ban, revision, resets]);
}

/** The same of what the rules know. */
function durableOf({ policy, minuteMs, dayMs, ban }: Known): string {
  const windows = [minuteMs, dayMs].map((times) => times[0] && [times[0], times.length]);
  const { revision = -1, resets = 0 } = policy ?? {};
  return JSON.stringify([...windows, ban, revision, resets]);
}

/** Names the open windows of which four fifths or more are used. */
function lowWindows({ policy, minuteMs, dayMs }: Known, nowMs: number): string[] {
  const { perMinute = 1, perDay = 1 } = policy?.limits ?? {};
  return [
    { name: "minute", times: minuteMs, limit: perMinute, lengthMs: MINUTE_MS },
    { name: "day", times: dayMs, limit: perDay, lengthMs: DAY_MS },
  ].flatMap(({ name, times, limit, lengthMs }) => {
    const isOpen = nowMs < times[0]! + lengthMs;
    return isOpen && 5 * times.length >= 4 * limit ? [`${name} ${times[0]}`] : [];
  });
}

/** Returns whether a quota counts everything that an earlier one of the same limits has counted. */
function isAsNew(quota: Quota, earlier: Quota | null): boolean {
  return WINDOW_NAMES.every((name) => {
    const before = earlier?.[name];
    if (before === undefined || quota.nowMs >= before.endsMs) return true;
    const { remaining, endsMs } = quota[name];
    return endsMs > before.endsMs || (endsMs === before.endsMs && remaining <= before.remaining);
  });
}

interface Told extends Record<WindowName, number> {
  readonly policy: QuotaPolicy;
  readonly quota: Decision;
  readonly receivedMs: number;
}

interface Arrived {
  readonly policy: QuotaPolicy;
  readonly cancels: boolean;
  readonly cancelledMs: number;
  readonly sentMs: number;
}

/**
 * Sees what goes into a key's limiter and what comes out of it, and notes which promises it breaks.
 * Lets the documented rules decide on the same calls, in the order in which they arrive at the object.
 */
export class Witness {
  readonly broken: unknown[] = [];
  requests = 0;
  /** All versions of the key, the oldest first. */
  readonly policies: QuotaPolicy[];
  /** When the last cancellation that the object admitted was answered. */
  cancelledMs = -Infinity;
  replicas = 0;
  fallbacks = 0;
  /** The object's last decision for each isolate, and how many the fallback has admitted since. */
  readonly #told = new Map<Isolate, Told>();
  readonly decidedBy = { memory: 0, object: 0, fallback: 0, nobody: 0 };
  readonly #bans: BanPolicy;
  /** When each attempt of a call began, by its nonce. */
  readonly #attemptsMs = new Map<string, number[]>();
  #rules = new DocumentedRules();
  #sum = NOTHING;
  /** What the rules and the sum were after each call since the object started, the oldest first. */
  #versions: { readonly known: Known; readonly sum: Sum }[] = [
    { known: this.#rules.known, sum: NOTHING },
  ];
  #hasRestarted = false;
  /** By nonce: the decisions of the rules, and the index of the version that includes them. */
  readonly #decided = new Map<string, { readonly answer: Answer; readonly version: number }>();
  /** The revision of the key with which each decision was made that an isolate received. */
  readonly #received = new Map<Decision, number>();
  readonly #expectedEvents: string[] = [];
  readonly #events: string[] = [];

  constructor(bans: BanPolicy, policy: QuotaPolicy) {
    this.#bans = bans;
    this.policies = [policy];
  }

  claim(isTrue: boolean, promise: string, ...details: readonly unknown[]): void {
    if (!isTrue) this.broken.push([promise, ...details]);
  }

  logs(line: string): void {
    const { event, error } = JSON.parse(line) as { event: string; error?: unknown };
    this.claim(!FAILURE.test(event) || Boolean(error), "A failure has its cause.", line);
    if (["limiter_reset", "would_ban", "banned", "quota_low"].includes(event))
      this.#events.push(event);
  }

  /** An isolate calls the object, or sends a call again. */
  calls(isolate: Isolate, [, refusals, nonce, { wait, cancels }]: Call, nowMs: number): void {
    const attemptsMs = [...(this.#attemptsMs.get(nonce) ?? []), nowMs];
    this.#attemptsMs.set(nonce, attemptsMs);
    this.claim(nowMs < attemptsMs[0]! + TIMEOUT_MS, "A call is sent again only in time.");
    this.claim(attemptsMs.length <= 3, "A call is sent at most three times.");
    this.claim((wait?.strikes ?? 0) <= refusals, "A strike is a refusal.");
    const isTold = cancels || !isolate.hasCancelled || attemptsMs.length > 1;
    this.claim(isTold, "The object hears of a cancellation that it did not admit.");
    if (attemptsMs.length === 1) isolate.reported += refusals;
  }

  /** A call arrives at the object. One that was sent again is not counted again. */
  arrives([policy, refusals, nonce, { requests, wait }]: Call, nowMs: number): void {
    if (this.#decided.has(nonce)) return;
    const answer = Array.from({ length: requests }, (_, n) => {
      const { known: before } = this.#rules;
      const report = n === 0 ? wait : null;
      const decided = this.#rules.request(policy, this.#bans, nowMs, report);
      const { decision, newBan } = decided;
      this.#sum = plus(this.#sum, decision, { ...decided, refused: n === 0 ? refusals : 0 });
      const events = this.#expectedEvents;
      const isReset = before.policy !== null && policy.resets > before.policy.resets;
      if (isReset) events.push("limiter_reset");
      if (newBan !== null) events.push(newBan.loggedOnly ? "would_ban" : "banned");
      const wasLow = new Set(lowWindows(before, nowMs));
      const isNew = (window: string) => !wasLow.has(window);
      events.push(...lowWindows(this.#rules.known, nowMs).filter(isNew).fill("quota_low"));
      return decision;
    });
    const version = this.#versions.push({ known: this.#rules.known, sum: this.#sum }) - 1;
    this.#decided.set(nonce, { answer, version });
  }

  /** An answer leaves the object while this state is on disk. */
  leaves(nonce: string, answer: Answer, disk: LimiterState | null): void {
    const decided = this.#decided.get(nonce)!;
    const { mayReadReplica } = answer[0]!;
    const rules = decided.answer.map((decision) => ({ ...decision, mayReadReplica }));
    this.claim(isDeepStrictEqual(answer, rules), "The rules decide.", answer, decided);
    const onDisk = durable(disk);
    const isOnDisk = this.#versions
      .slice(decided.version)
      .some(({ known }) => durableOf(known) === onDisk);
    this.claim(isOnDisk, "An answer leaves when its decisions are on disk.", answer, disk);
  }

  /** The object starts with what is on disk. */
  starts(disk: LimiterState | null): void {
    const onDisk = durable(disk);
    const version = this.#versions.findLast(({ known }) => durableOf(known) === onDisk);
    this.claim(version !== undefined, "What is on disk was decided.", disk);
    this.#hasRestarted ||= this.requests > 0;
    this.#rules = new DocumentedRules(version?.known);
    this.#rules.restart();
    this.#sum = version?.sum ?? NOTHING;
    this.#versions = [{ known: this.#rules.known, sum: this.#sum }];
    this.#decided.clear();
  }

  /** The object has deleted its storage, as everything in it has ended. */
  deletes(): void {
    this.#rules = new DocumentedRules();
    this.#versions.push({ known: this.#rules.known, sum: this.#sum });
  }

  receives(isolate: Isolate, [policy, , , { cancels }]: Call, answer: Answer): void {
    isolate.isAlone = false;
    if (cancels) Object.assign(isolate, { hasCancelled: false, heardMs: Date.now() });
    for (const decision of answer) this.#received.set(decision, policy.revision);
  }

  /** An isolate answers a request. `policy` and `cancelledMs` are those of its arrival. */
  responds(
    isolate: Isolate,
    { policy, cancels, cancelledMs, sentMs }: Arrived,
    { decision, decidedBy }: Verdict,
    nowMs: number,
  ): void {
    this.decidedBy[decidedBy] += 1;
    if (decision?.admitted) {
      if (cancels && decidedBy === "object") this.cancelledMs = nowMs;
      const isLong = nowMs - cancelledMs >= 600_000;
      this.claim(isLong || !decision.mayReadReplica, "A key never sees what it cancelled.");
      if (decision.mayReadReplica) this.replicas += 1;
    }
    if (decidedBy === "memory") {
      isolate.repeated += 1;
      const announcedMs = nowMs + decision!.retryAtMs! - decision!.nowMs;
      const isRight = announcedMs <= this.#refusesUntilMs(policy, nowMs) + 1_000;
      this.claim(isRight, "A refusal ends when the object would admit.", decision);
    } else if (decidedBy === "object") {
      const isNewest = this.#received.get(decision!)! >= policy.revision;
      this.claim(isNewest, "No outdated version of the key decides.", decision);
      this.claim(this.#received.delete(decision!), "No two requests share a decision.", decision);
      this.#told.set(isolate, { policy, quota: decision!, receivedMs: nowMs, minute: 0, day: 0 });
      if (isAsNew(decision!, isolate.decision)) isolate.decision = decision;
    } else this.claim(isolate.hasFailed, "The object decides if it can be reached.");
    if (decidedBy !== "fallback") return;
    isolate.isAlone = true;
    isolate.hasCancelled ||= cancels && decision!.admitted && isolate.heardMs < sentMs;
    this.#fallsBack(isolate, policy, decision!, nowMs);
  }

  /** What the object last told an isolate is the beginning of the isolate's fallback limiter. */
  #fallsBack(isolate: Isolate, policy: QuotaPolicy, decision: Decision, nowMs: number): void {
    const told = this.#told.get(isolate);
    if (told?.policy !== policy || isolate.policy !== policy) return;
    const { quota, receivedMs } = told;
    const sinceMs = nowMs - receivedMs;
    const isBanned = sinceMs < (quota.ban?.endsMs ?? 0) - quota.nowMs;
    const open = WINDOW_NAMES.filter((name) => sinceMs < quota[name].endsMs - quota.nowMs);
    for (const name of open) told[name] += Number(decision.admitted);
    // The object may know a later version of the key than the isolate.
    const isLeft = open.every(
      (name) =>
        quota[name].limit !== limitOf(policy.limits, name) || told[name] <= quota[name].remaining,
    );
    const isTrue = isLeft && !(isBanned && decision.admitted);
    this.claim(isTrue, "The fallback limiter goes on.", decision, told);
    this.fallbacks += 1;
  }

  peeks(isolate: Isolate, nowMs: number): void {
    this.claim(nowMs - isolate.peekedMs >= 1_000, "Looks call the object once a second.", nowMs);
    isolate.peekedMs = nowMs;
  }

  /** An isolate answers a look. `wasAlone` and `policy` are those of its arrival. */
  looks(isolate: Isolate, wasAlone: boolean, policy: QuotaPolicy, quota: Quota | null): void {
    const isHeard = quota === null || !(wasAlone && isolate.isAlone);
    this.claim(isHeard, "After the fallback has decided, a look is answered by the object.", quota);
    if (quota === null) this.claim(isolate.isBlind, "A look fails only if its call has failed.");
    else {
      const isOf = ({ limits, revision }: QuotaPolicy) =>
        revision >= policy.revision &&
        WINDOW_NAMES.every((name) => quota[name].limit === limitOf(limits, name));
      const isNew = this.policies.length > 1 || isAsNew(quota, isolate.decision);
      this.claim(isNew, "No look is older than the isolate's last decision.", quota);
      this.claim(this.policies.some(isOf), "No look is of an earlier version of the key.", quota);
    }
  }

  /** A report has changed what operators read. It may be late, but lowers no count. */
  reports(before: Sum, after: Sum): void {
    for (const [day, { perMinute: _, perDay: __, ...counts }] of Object.entries(before.days)) {
      const isLower = ([name, count]: [string, number]) =>
        (after.days[day]?.[name as keyof typeof counts] ?? 0) < count;
      const lowered = Object.entries(counts).filter(isLower);
      this.claim(lowered.length === 0, "No report lowers a count.", day, lowered);
    }
  }

  /** Every isolate has called the object again, long after its last refusal. */
  ends(isolates: readonly Isolate[], found: Sum): void {
    this.claim(isDeepStrictEqual(found.bans, this.#sum.bans), "Bans are reported once.", found);
    const days = Object.entries(this.#sum.days).filter(([, { admitted }]) => admitted > 0);
    for (const [day, { admitted, perMinute, perDay, bans, ...sum }] of days) {
      const read = found.days[day]!;
      // A restart may lose what a refusal changed, because a refusal alone causes no write.
      const isRight = (name: keyof typeof sum) =>
        this.#hasRestarted ? read[name] <= sum[name] : read[name] === sum[name];
      const isExact = isDeepStrictEqual(read, { ...read, admitted, perMinute, perDay, bans });
      const adds = isExact && (Object.keys(sum) as (keyof typeof sum)[]).every(isRight);
      this.claim(adds, "Usage adds up.", day, sum, read);
    }
    const answered = Object.values(this.decidedBy).reduce((sum, count) => sum + count);
    this.claim(answered === this.requests, "Each request is answered.", answered);
    const [events, expected] = [this.#events, this.#expectedEvents];
    const isLogged = isDeepStrictEqual(events, expected);
    this.claim(isLogged, "Bans, resets and low quotas are logged.", events);
    for (const { hasFailed, reported, repeated } of isolates) {
      const isOnce = hasFailed ? reported <= repeated : reported === repeated;
      this.claim(isOnce, "Each refusal is reported once.", reported, repeated);
    }
  }

  /** Until when the object would refuse; unlimited if it knows a later version of the key. */
  #refusesUntilMs(policy: QuotaPolicy, nowMs: number): number {
    const { known } = this.#rules;
    if (known.policy !== null && known.policy.revision > policy.revision) return Infinity;
    const { decision } = new DocumentedRules(known).request(policy, this.#bans, nowMs);
    return decision.retryAtMs ?? -Infinity;
  }
}
