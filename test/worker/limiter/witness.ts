import { isDeepStrictEqual } from "node:util";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision, Quota } from "../../../src/rules/limits/decision.ts";
import type { LimiterState, QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { limitOf } from "../../../src/rules/limits/plans.ts";
import { mapWindows, WINDOW_NAMES } from "../../../src/rules/limits/windows.ts";
import type { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import type { ObjectDecision } from "../../../src/worker/limiter/object-call.ts";
import type { Verdict } from "../../../src/worker/limiter/limiter.ts";
import { START_MS } from "../../rules/limits/simulated-limiter.ts";
import { DocumentedRules, type Known, windowsOf } from "../../rules/limits/documented-rules.ts";
import { FAILURE } from "../../support/written-lines.ts";
import { KEY_ID, NOTHING, plus, type Sum } from "../usage/usage-database.ts";
import type { Isolate } from "./world.ts";

export const TIMEOUT_MS = 5_000;

export type Call = Parameters<RateLimiter["admit"]>;
export type Answer = readonly ObjectDecision[];

/** What an answer promises to be on disk: windows, ban, and version of the key. */
const durable = (state: Partial<LimiterState> | null) => {
  const { minute = null, day = null, ban = null, revision = -1, resets = 0 } = state ?? {};
  return JSON.stringify([minute, day, ban, revision, resets]);
};

/** The same of what the rules know. */
function durableOf({ policy, admittedMs, ban }: Known): string {
  const windows = mapWindows((name) => {
    const [openedMs] = admittedMs[name];
    return openedMs === undefined ? null : { openedMs, count: admittedMs[name].length };
  });
  return durable({ ...policy, ...windows, ban });
}

/** Describes the open windows of which four fifths or more are used, as the log does. */
function lowWindows(known: Known, nowMs: number) {
  return Object.entries(windowsOf(known, nowMs))
    .filter(([, { limit, remaining }]) => 5 * remaining <= limit)
    .map(([window, { endsMs, ...left }]) => {
      return { window, ...left, resetsAt: new Date(endsMs).toISOString() };
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

/** Returns an answer as of an isolate whose clock is behind: with earlier times. */
export function asOf<T extends Answer | Quota>(answer: T, behindMs: number): T {
  const isTime = (value: unknown) => typeof value === "number" && value > START_MS / 2;
  const shift = (_: string, value: unknown) => (isTime(value) ? Number(value) - behindMs : value);
  return JSON.parse(JSON.stringify(answer), shift) as T;
}

/** What was so when a request or a look arrived at an isolate. */
type Arrival = ReturnType<Witness["arrival"]>;

/**
 * Sees what goes into a key's limiter and what comes out of it, and notes which promises it breaks.
 * Lets the documented rules decide on the same calls, in the order in which they arrive at the object.
 */
export class Witness {
  readonly broken: unknown[] = [];
  requests = 0;
  /** All versions of the key, the oldest first. */
  readonly policies: QuotaPolicy[];
  /** The number of resets after each one, and its time. */
  readonly resets: { readonly resets: number; readonly atMs: number }[] = [];
  /** When the last cancellation that the object admitted was answered. */
  cancelledMs = -Infinity;
  replicas = 0;
  /** The most calls that an isolate has had under way. */
  mostCalls = 0;
  /** What the object last told each isolate, from which its fallback limiter goes on. */
  readonly #fallbacks = new Map<Isolate, DocumentedRules>();
  readonly logged: { readonly event: string }[] = [];
  readonly decidedBy = { memory: 0, object: 0, fallback: 0, nobody: 0 };
  readonly #bans: BanPolicy;
  /** What the object last decided on each call, and when its answer left. */
  readonly #left: { readonly decision: Decision; readonly atMs: number }[] = [];
  /** When each attempt of a call began, by its nonce. */
  readonly #attemptsMs = new Map<string, number[]>();
  #rules = new DocumentedRules();
  #sum = NOTHING;
  /** What the rules and the sum were after each call since the object started, the oldest first. */
  #versions: { readonly known: Known; readonly sum: Sum }[] = [
    { known: this.#rules.known, sum: NOTHING },
  ];
  /** When the last call that cancels arrived at the object. */
  #notedMs = 0;
  #hasRestarted = false;
  /** By nonce: the decisions of the rules, and the index of the version that includes them. */
  readonly #decided = new Map<string, { readonly answer: Answer; readonly version: number }>();
  /** The revision of the key with which each decision was made that an isolate received. */
  readonly #received = new Map<Decision, number>();
  readonly #expectedEvents: object[] = [];

  constructor(bans: BanPolicy, policy: QuotaPolicy) {
    this.#bans = bans;
    this.policies = [policy];
  }

  claim(isTrue: boolean, promise: string, ...details: readonly unknown[]): void {
    if (!isTrue) this.broken.push([promise, ...details]);
  }

  logs(line: string): void {
    const logged = JSON.parse(line) as { event: string; error?: unknown };
    const hasCause = !FAILURE.test(logged.event) || Boolean(logged.error);
    this.claim(hasCause, "A failure has its cause.", line);
    this.logged.push(logged);
  }

  /** An isolate calls the object, or sends a call again. Returns how often it was sent. */
  calls(isolate: Isolate, [, refusals, nonce, { wait, cancels }]: Call, nowMs: number): number {
    const attemptsMs = [...(this.#attemptsMs.get(nonce) ?? []), nowMs];
    this.#attemptsMs.set(nonce, attemptsMs);
    this.claim(nowMs < attemptsMs[0]! + TIMEOUT_MS, "A call is sent again only in time.");
    this.claim(attemptsMs.length <= 3, "A call is sent at most three times.");
    this.claim((wait?.strikes ?? 0) <= refusals, "A strike is a refusal.");
    const isTold = cancels || !isolate.hasCancelled || attemptsMs.length > 1;
    this.claim(isTold, "The object hears of a cancellation that it did not admit.");
    if (attemptsMs.length === 1) isolate.reported += refusals;
    this.mostCalls = Math.max(this.mostCalls, isolate.calls.size);
    return attemptsMs.length;
  }

  /** A call arrives at the object. One that was sent again is not counted again. */
  arrives([policy, refusals, nonce, { requests, wait, cancels }]: Call, nowMs: number): void {
    if (this.#decided.has(nonce)) return;
    if (cancels) this.#notedMs = nowMs;
    const mayReadReplica = nowMs - this.#notedMs >= 600_000;
    const answer = Array.from({ length: requests }, (_, n) => {
      const { known: before } = this.#rules;
      const decided = this.#rules.request(policy, this.#bans, nowMs, n === 0 ? wait : null);
      const { decision, newBan } = decided;
      const { resets } = this.#rules.known.policy!;
      const refused = n === 0 ? refusals : 0;
      this.#sum = plus(this.#sum, decision, { ...decided, refused, resets });
      const logs = (event: string, more: object = {}) =>
        this.#expectedEvents.push({ event, keyId: KEY_ID, ...more });
      if (before.policy !== null && policy.resets > before.policy.resets) logs("limiter_reset");
      if (newBan !== null) {
        const { number, untilMs, loggedOnly } = newBan;
        const until = new Date(untilMs).toISOString();
        logs(loggedOnly ? "would_ban" : "banned", { number, until });
      }
      const wasLow = lowWindows(before, nowMs).map(({ resetsAt }) => resetsAt);
      for (const low of lowWindows(this.#rules.known, nowMs)) {
        if (!wasLow.includes(low.resetsAt)) logs("quota_low", low);
      }
      return { ...decision, mayReadReplica };
    });
    const version = this.#versions.push({ known: this.#rules.known, sum: this.#sum }) - 1;
    this.#decided.set(nonce, { answer, version });
  }

  /** An answer leaves the object while this state is on disk. */
  leaves(nonce: string, answer: Answer, disk: LimiterState | null): void {
    const decided = this.#decided.get(nonce)!;
    this.claim(isDeepStrictEqual(answer, decided.answer), "The rules decide.", answer, decided);
    this.#left.push({ decision: answer.at(-1)!, atMs: Date.now() });
    const onDisk = durable(disk);
    const isOnDisk = this.#versions
      .slice(decided.version)
      .some(({ known }) => durableOf(known) === onDisk);
    this.claim(isOnDisk, "An answer leaves when its decisions are on disk.", answer, disk);
  }

  starts(disk: LimiterState | null, cancelledMs: number | null): void {
    this.#notedMs = cancelledMs ?? 0;
    const version = this.#versions.findLast(({ known }) => durableOf(known) === durable(disk));
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

  receives(isolate: Isolate, [policy, , nonce, { cancels }]: Call, answer: Answer): void {
    isolate.isAlone = false;
    const known = DocumentedRules.after(answer.at(-1)!, policy, Date.now());
    if (isolate.calls.has(nonce)) this.#fallbacks.set(isolate, known);
    if (cancels) Object.assign(isolate, { hasCancelled: false, heardMs: Date.now() });
    for (const decision of answer) this.#received.set(decision, policy.revision);
  }

  arrival({ policy, isAlone: wasAlone }: Isolate) {
    return { policy, wasAlone, cancelledMs: this.cancelledMs, sentMs: Date.now() };
  }

  responds(isolate: Isolate, arrival: Arrival, verdict: Verdict, cancels: boolean): void {
    const { policy, cancelledMs, sentMs } = arrival;
    const { decision, decidedBy } = verdict;
    const nowMs = Date.now();
    this.claim(nowMs - sentMs <= 2 * TIMEOUT_MS, "Each request is answered in time.");
    this.decidedBy[decidedBy] += 1;
    if (decision?.admitted) {
      if (cancels && decidedBy === "object") this.cancelledMs = nowMs;
      const isLong = nowMs - cancelledMs >= 600_000;
      this.claim(isLong || !decision.mayReadReplica, "A key never sees what it cancelled.");
      if (decision.mayReadReplica) this.replicas += 1;
    }
    if (decidedBy === "memory") {
      isolate.repeated += 1;
      this.#repeats(isolate, policy, decision!, nowMs);
    } else if (decidedBy === "object") {
      const isNewest = this.#received.get(decision!)! >= policy.revision;
      this.claim(isNewest, "No outdated version of the key decides.", decision);
      this.claim(this.#received.delete(decision!), "No two requests share a decision.", decision);
      if (isAsNew(decision!, isolate.decision)) isolate.decision = decision;
    } else {
      const isFailing = isolate.isFailing || isolate.failedMs === nowMs;
      this.claim(isFailing, "The object decides if it can be reached.", decidedBy);
    }
    if (decidedBy !== "fallback") return;
    isolate.isAlone = true;
    isolate.hasCancelled ||= cancels && decision!.admitted && isolate.heardMs < sentMs;
    const known = this.#fallbacks.get(isolate) ?? new DocumentedRules();
    this.#fallbacks.set(isolate, known);
    const { decision: expected } = known.request(policy, this.#bans, nowMs);
    const goesOn = isDeepStrictEqual(decision, expected);
    this.claim(goesOn, "The fallback limiter goes on.", decision, expected);
  }

  #repeats({ behindMs }: Isolate, policy: QuotaPolicy, decision: Decision, nowMs: number): void {
    const { known } = this.#rules;
    // The object may know a later version of the key.
    if (known.policy !== null && known.policy.revision > policy.revision) return;
    const expected = new DocumentedRules(known).request(policy, this.#bans, nowMs).decision;
    const announcedMs = nowMs + decision.retryAtMs! - decision.nowMs;
    const isRight = announcedMs <= (expected.retryAtMs ?? -Infinity) + 1_000;
    this.claim(isRight, "A refusal ends when the object would admit.", decision, expected);
    const isSame = WINDOW_NAMES.every((name) => {
      const { limit, remaining, endsMs } = expected[name];
      const same = { limit, remaining, endsMs: endsMs - behindMs };
      return remaining === limit || isDeepStrictEqual(decision[name], same);
    });
    this.claim(isSame, "A refusal says what is left.", decision, expected);
  }

  peeks(isolate: Isolate, nowMs: number): void {
    this.claim(nowMs - isolate.peekedMs >= 1_000, "Looks call the object once a second.", nowMs);
    isolate.peekedMs = nowMs;
  }

  looks(isolate: Isolate, { wasAlone, policy, sentMs }: Arrival, quota: Quota | null): void {
    const isHeard = quota === null || !(wasAlone && isolate.isAlone);
    this.claim(isHeard, "After the fallback has decided, a look is answered by the object.", quota);
    if (quota === null) return this.claim(isolate.isBlind, "A look fails only with its call.");
    const isOf = ({ limits, revision }: QuotaPolicy) =>
      revision >= policy.revision &&
      WINDOW_NAMES.every((name) => quota[name].limit === limitOf(limits, name));
    const left = this.#left.findLast(({ atMs }) => atMs <= sentMs - 1_000);
    for (const earlier of [isolate.decision, left && asOf(left.decision, isolate.behindMs)]) {
      const isNew = this.policies.length > 1 || isAsNew(quota, earlier ?? null);
      this.claim(isNew, "No look is older than a second or the last decision.", quota, earlier);
    }
    this.claim(this.policies.some(isOf), "No look is of an earlier version of the key.", quota);
  }

  /** A report has written rows, or is late: after a later one. */
  reports(before: Sum, after: Sum, isLate: boolean, writes: number): void {
    const isNews = writes === 0 || (!isLate && !isDeepStrictEqual(before, after));
    this.claim(isNews, "A report that is late or without news writes no row.", before, after);
    for (const [day, { perMinute: _, perDay: __, ...counts }] of Object.entries(before.days)) {
      const isLower = ([name, count]: [string, number]) =>
        (after.days[day]?.[name as keyof typeof counts] ?? 0) < count;
      const lowered = Object.entries(counts).filter(isLower);
      this.claim(lowered.length === 0, "No report lowers a count.", day, lowered);
    }
  }

  /** Every isolate has called the object again, long after its last refusal. */
  ends(isolates: readonly Isolate[], found: Sum): void {
    const bansOf = ({ bans }: Sum) => bans.map((ban) => [ban.beganMs, ban.untilMs, ban.number]);
    const areReported = isDeepStrictEqual(bansOf(found), bansOf(this.#sum));
    this.claim(areReported, "Bans are reported once.", found.bans, this.#sum.bans);
    for (const [index, { beganMs, untilMs, resets }] of this.#sum.bans.entries()) {
      const liftedMs = found.bans[index]?.liftedMs ?? null;
      const later = this.resets.filter((reset) => reset.resets > resets!);
      const isRight =
        liftedMs === null
          ? later.every(({ atMs }) => atMs >= untilMs)
          : later.some(({ atMs }) => liftedMs === Math.max(beganMs, atMs));
      this.claim(isRight, "A later reset, and nothing else, lifts a ban.", found.bans, later);
    }
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
    const ofKey = ["limiter_reset", "would_ban", "banned", "quota_low"];
    const events = this.logged.filter(({ event }) => ofKey.includes(event));
    const isLogged = isDeepStrictEqual(events, this.#expectedEvents);
    this.claim(isLogged, "Bans, resets and low quotas are logged.", events);
    for (const { failedMs, reported, repeated } of isolates) {
      const isOnce = failedMs > 0 ? reported <= repeated : reported === repeated;
      this.claim(isOnce, "Each refusal is reported once.", reported, repeated);
    }
  }
}
