import { isDeepStrictEqual } from "node:util";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import { decide, type Decision } from "../../../src/rules/limits/decision.ts";
import type { LimiterState, QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { stateEndMs } from "../../../src/rules/limits/limiter-state.ts";
import type { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import type { Verdict } from "../../../src/worker/limiter/limiter.ts";
import type { Isolate } from "./world.ts";

export const TIMEOUT_MS = 5_000;

export type Call = Parameters<RateLimiter["admit"]>;
export type Answer = readonly Decision[];
export type Row = Readonly<Record<string, unknown>>;

interface Request {
  readonly isolate: Isolate;
  /** The version of the key with which the isolate received the request. */
  readonly policy: QuotaPolicy;
  readonly sentMs: number;
}

/** The events that begin and end an outage. */
const OUTAGES = [
  ["fallback_limiter_on", "fallback_limiter_off"],
  ["limiter_overloaded", "limiter_not_overloaded"],
] as const;

/** The part of the state that an answer promises to be on disk. */
function durable(state: LimiterState | null): string {
  const { minute = null, day = null, ban = null, revision = -1, resets = 0 } = state ?? {};
  return JSON.stringify({ minute, day, ban, revision, resets });
}

/**
 * Sees what goes into a key's limiter and what comes out of it, and notes which promises it breaks.
 * Lets the real rules decide on the same calls, in the order in which they arrive at the object.
 * All times are Unix milliseconds on the object's clock.
 */
export class Witness {
  readonly broken: unknown[] = [];
  unanswered = 0;
  readonly decidedBy = { memory: 0, object: 0, fallback: 0, nobody: 0 };
  readonly #bans: BanPolicy;
  #state: LimiterState | null = null;
  /** The durable part of the state after each call since the object started. */
  #versions: string[] = [];
  /** By nonce: the decisions of the rules, and the index of the version that includes them. */
  readonly #decided = new Map<string, { readonly answer: Answer; readonly version: number }>();
  /** The revision of the key with which each decision was made that an isolate received. */
  readonly #received = new Map<Decision, number>();
  readonly #events: string[] = [];
  readonly #admitted = { decided: 0, answered: new Set<Decision>(), reported: new Map() };
  readonly #bansBegun = { logged: [] as string[], answered: new Set(), reported: new Set() };

  constructor(bans: BanPolicy) {
    this.#bans = bans;
  }

  claim(isTrue: boolean, promise: string, ...details: readonly unknown[]): void {
    if (!isTrue) this.broken.push([promise, ...details]);
  }

  /** An isolate calls the object for the first time with this nonce. */
  calls(isolate: Isolate, [, refusals, , { wait }]: Call): void {
    isolate.reported += refusals;
    this.claim((wait?.strikes ?? 0) <= refusals, "A strike is a refusal.");
  }

  /** A call arrives at the object. One that was sent again is not counted again. */
  arrives([policy, , nonce, { requests, wait }]: Call, nowMs: number): void {
    if (this.#decided.has(nonce)) return;
    const answer = Array.from({ length: requests }, (_, n) => {
      const before = this.#state;
      const decided = decide(before, policy, this.#bans, nowMs, n === 0 ? wait : null);
      const { state, decision, newBan } = decided;
      this.#state = state;
      this.#admitted.decided += Number(decision.admitted);
      const { logged } = this.#bansBegun;
      if (before !== null && state.resets > before.resets) logged.push("limiter_reset");
      if (newBan !== null) logged.push(newBan.loggedOnly ? "would_ban" : "banned");
      return decision;
    });
    const version = this.#versions.push(durable(this.#state)) - 1;
    this.#decided.set(nonce, { answer, version });
  }

  /** An answer leaves the object while this state is on disk. */
  leaves(nonce: string, answer: Answer, disk: LimiterState | null, writes: number): void {
    const decided = this.#decided.get(nonce);
    // The storage was deleted meanwhile, because nothing in it had an effect any more.
    if (decided === undefined) return;
    this.claim(isDeepStrictEqual(answer, decided.answer), "The rules decide.", answer, decided);
    const isOnDisk = this.#versions.indexOf(durable(disk), decided.version) !== -1;
    this.claim(isOnDisk, "An answer leaves when its decisions are on disk.", answer, disk);
    this.claim(writes <= 2, "No answer waits for more than two writes.", writes);
    for (const one of decided.answer) if (one.admitted) this.#admitted.answered.add(one);
    if (answer.some(({ banned }) => banned)) this.#bansBegun.answered.add(disk?.ban?.beganMs);
  }

  /** The object starts with what is on disk. */
  starts(disk: LimiterState | null): void {
    this.#state = disk;
    this.#versions = [durable(disk)];
    this.#decided.clear();
  }

  deletes(nowMs: number): void {
    const isOver = this.#state === null || stateEndMs(this.#state, this.#bans) <= nowMs;
    this.claim(isOver, "What still has an effect is not deleted.");
    this.starts(null);
  }

  /** The database stores the rows of a report: totals of days, and bans. */
  reports(rows: readonly Row[]): void {
    const { reported } = this.#admitted;
    for (const { began_at: beganMs, day, admitted } of rows) {
      if (beganMs !== undefined) this.#bansBegun.reported.add(beganMs);
      else reported.set(day, Math.max(Number(admitted), reported.get(day) ?? 0));
    }
  }

  receives([policy]: Call, answer: Answer): void {
    for (const decision of answer) this.#received.set(decision, policy.revision);
  }

  /** An isolate answers a request. */
  responds({ isolate, policy, sentMs }: Request, verdict: Verdict, nowMs: number): void {
    const { decision, decidedBy } = verdict;
    this.unanswered -= 1;
    this.decidedBy[decidedBy] += 1;
    this.claim(nowMs - sentMs <= 2 * TIMEOUT_MS, "Each request is answered in time.");
    if (decidedBy === "memory") {
      isolate.repeated += 1;
      const announcedMs = nowMs + decision!.retryAtMs! - decision!.nowMs;
      const isRight = announcedMs <= this.#refusesUntilMs(policy, nowMs) + 1_000;
      this.claim(isRight, "A refusal ends when the object would admit.", decision);
    } else if (decidedBy === "object") {
      const isNewest = this.#received.get(decision!)! >= policy.revision;
      this.claim(isNewest, "No outdated version of the key decides.", decision);
      this.claim(this.#received.delete(decision!), "No two requests share a decision.", decision);
    } else this.claim(isolate.hasFailed, "The object decides if it can be reached.");
    if (decidedBy !== "fallback") return;
    const alone = decide(isolate.alone, policy, this.#bans, nowMs);
    isolate.alone = alone.state;
    this.claim(isDeepStrictEqual(decision, alone.decision), "The fallback follows the rules.");
  }

  logs(line: string): void {
    this.#events.push((JSON.parse(line) as { event: string }).event);
  }

  /** All is over: every window and ban has ended, and the object has reported everything. */
  ends(isolates: readonly Isolate[]): void {
    this.claim(this.unanswered === 0, "Every request is answered.");
    const times = (event: string) => this.#events.filter((one) => one === event).length;
    const { logged, answered, reported } = this.#bansBegun;
    for (const event of ["limiter_reset", "would_ban", "banned"]) {
      const begun = logged.filter((one) => one === event);
      this.claim(times(event) === begun.length, "Bans and resets are logged.", event);
    }
    for (const [on, off] of OUTAGES) this.claim(times(on) === times(off), "Outages end.", on);
    this.claim(
      [...answered].every((ban) => reported.has(ban)),
      "Each ban is reported.",
      answered,
      reported,
    );
    const admitted = this.#admitted;
    const sum = [...admitted.reported.values()].reduce((total, ofDay) => total + ofDay, 0);
    const isRight = admitted.answered.size <= sum && sum <= admitted.decided;
    this.claim(isRight, "What was counted is reported.", sum, admitted);
    for (const { hasFailed, reported: told, repeated } of isolates) {
      const isOnce = hasFailed ? told <= repeated : told === repeated;
      this.claim(isOnce, "Each refusal is reported once.", told, repeated);
    }
  }

  /** Until when the object would refuse; unlimited if it knows a later version of the key. */
  #refusesUntilMs(policy: QuotaPolicy, nowMs: number): number {
    if (this.#state !== null && this.#state.revision > policy.revision) return Infinity;
    return decide(this.#state, policy, this.#bans, nowMs).decision.retryAtMs ?? -Infinity;
  }
}
