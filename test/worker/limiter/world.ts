import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, beforeEach, vi } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import * as rules from "../../../src/rules/limits/decision.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { Limits } from "../../../src/rules/limits/plans.ts";
import { WINDOW_NAMES, windowEndMs } from "../../../src/rules/limits/windows.ts";
import { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { Limiter, type Verdict } from "../../../src/worker/limiter/limiter.ts";
import { readState, type ReadState } from "../../../src/worker/limiter/stored-state.ts";
import { START_MS } from "../../rules/limits/simulated-limiter.ts";

export const TIMEOUT_MS = 5_000;

const KEY_ID = "simulated";

/**
 * The ways in which a call to the Durable Object can end:
 *
 * - `answer`: the call succeeds. `slow`: the object decides, but answers after the timeout.
 * - `error`, `retryable`, `overloaded`: the call never arrives, and fails with this kind of error.
 * - `slow retryable`: like `retryable`, but so late that no time is left for a retry.
 * - `lost`: the object decides, but the isolate receives an error instead of the answer.
 * - `lost retryable`: like `lost`, but with a retryable error, before the object's write ends.
 * - `killed`: the object decides, but dies before it writes the decision.
 */
export const FATES = [
  "answer",
  "slow",
  "slow retryable",
  "error",
  "retryable",
  "overloaded",
  "lost",
  "lost retryable",
  "killed",
] as const;
type Fate = (typeof FATES)[number];

/** The fate of a call, and its latency in milliseconds each way. */
export interface Wire {
  readonly fate: Fate;
  readonly outMs: number;
  readonly backMs: number;
}

export const PERFECT: Wire = { fate: "answer", outMs: 0, backMs: 0 };

/** An isolate or the Durable Object: something with a clock and a log of its own. */
interface Part {
  /** How far the part's clock is ahead of the world's clock. */
  skewMs: number;
  readonly events: string[];
}

const running = new AsyncLocalStorage<Part>();

/** A request that an isolate's limiter has decided on. */
interface Exchange extends Verdict {
  readonly isolate: number;
  readonly life: number;
  readonly policy: QuotaPolicy;
  /** The world's times at which the request was sent and its decision arrived. */
  readonly sentMs: number;
  readonly atMs: number;
  /** Whether a call of the isolate failed or timed out since the request was sent. */
  readonly sawFailure: boolean;
}

/** A decision that the rules made for the Durable Object. */
interface Ruling extends Pick<rules.Decided, "decision" | "strikes" | "newBan"> {
  readonly policy: QuotaPolicy;
  readonly nowMs: number;
  readonly isReset: boolean;
}

interface Attempts {
  readonly startedMs: number;
  count: number;
  /** The world's time at which the last attempt failed; `null` if no retry may follow. */
  retryFromMs: number | null;
}

interface Isolate {
  readonly index: number;
  readonly life: number;
  readonly part: Part;
  readonly limiter: Limiter;
  policy: QuotaPolicy;
  failures: number;
  /** The last call's fate. `null` during a call, and after a failure other than `overloaded`. */
  last: Fate | null;
  underWay: number;
  delivered: Decision | null;
  /** Whether the last answer took so long that its refusal is not repeated. */
  isVague: boolean;
}

/** One life of the Durable Object: from a start to an eviction or a crash. */
interface Life {
  readonly limiter: RateLimiter;
  isOver: boolean;
  readonly end: PromiseWithResolvers<never>;
  readonly nonces: Set<string>;
}

/**
 * Runs the real limiter of one key in several isolates, and the real Durable Object on a simulated
 * disk. Each of them has its own clock. Time passes only in `advance` and `drain`.
 */
export class World {
  readonly isolates: Isolate[];
  readonly exchanges: Exchange[] = [];
  /** All decisions of the Durable Object, and its disk after each restart and each deletion. */
  readonly rulings: (Ruling | ReadState)[] = [];
  readonly object: Part = { skewMs: 0, events: [] };
  newest: QuotaPolicy;
  /** The fate and latency of the next calls, in order. The last entry also serves later calls. */
  wires: Wire[] = [PERFECT];
  isDatabaseCut = false;
  isDiskBroken = false;
  /** True if a broken disk fails in `put`; false if it fails in `sync`. */
  isPutBroken = false;
  diskMs = 3;
  /** Whether the Durable Object's clock was set. */
  wasClockSet = false;
  calls = 0;
  calledMs = 0;
  kills = 0;
  mostWritesAtOnce = 0;
  readonly faults: string[] = [];
  /** The number of refusals from memory that calls have reported. A call's retry adds nothing. */
  reportedRefusals = 0;
  /** The number of failed calls with a report. */
  lostReports = 0;
  /** The largest totals reported for each day: admissions, refusals, strikes and bans. */
  readonly reported = new Map<string, readonly number[]>();
  readonly reportedBans = new Set<unknown>();
  alarmMs: number | null = null;
  /** The longest time between a failed report and the alarm that repeats the report. */
  longestRetryMs = 0;
  /** For each refusal that reached an isolate: the world's times at which it and its wait end. */
  readonly delivered: { isolate: number; untilMs: number; retryMs: number }[] = [];
  readonly #vars: object;
  /** By nonce: the attempts of a call, and when one of them first reached the Durable Object. */
  readonly #attempts = new Map<string, Attempts>();
  readonly #decidedMs = new Map<string, number>();
  readonly #policies = new Map<Decision, QuotaPolicy>();
  readonly #pending = new Set<Promise<unknown>>();
  #disk: unknown = undefined;
  #life: Life;

  constructor(policy: QuotaPolicy, bans: BanPolicy, skewsMs: readonly number[]) {
    this.newest = policy;
    this.#vars = {
      BAN_MODE: bans.mode,
      BAN_GRACE_SECONDS: bans.graceMs / 1_000,
      BAN_STRIKE_WINDOW_SECONDS: bans.strikeWindowMs / 1_000,
      BAN_MIN_STRIKES: bans.minStrikes,
      BAN_MAX_STRIKES: bans.maxStrikes,
      BAN_FIRST_SECONDS: bans.firstBanMs / 1_000,
      BAN_LONGEST_SECONDS: bans.longestBanMs / 1_000,
      BAN_FORGET_SECONDS: bans.forgetAfterMs / 1_000,
      LIMITER_TIMEOUT_MS: TIMEOUT_MS,
    };
    vi.spyOn(rules, "decide").mockImplementation((...args) => this.#decide(...args));
    this.isolates = skewsMs.map((skewMs, index) => this.#newIsolate(index, 0, skewMs, policy));
    this.#life = this.#start();
  }

  get nowMs(): number {
    return running.exit(() => Date.now());
  }

  get objectMs(): number {
    return this.nowMs + this.object.skewMs;
  }

  get stored(): ReadState {
    return readState(this.#disk);
  }

  restart(index: number): void {
    const { life, part, policy } = this.isolates[index]!;
    this.isolates[index] = this.#newIsolate(index, life + 1, part.skewMs, policy);
  }

  /** Changes the key. An isolate uses the new version after a call of `learn`. */
  change(changes: Partial<QuotaPolicy>): void {
    this.newest = { ...this.newest, ...changes, revision: this.newest.revision + 1 };
  }

  /** Changes the limits of the key's plan. The revision of the key does not change. */
  deploy(limits: Limits): void {
    this.newest = { ...this.newest, limits };
  }

  learn(index: number): void {
    this.isolates[index]!.policy = this.newest;
  }

  learnAll(): void {
    this.isolates.forEach((_, index) => this.learn(index));
  }

  send(index: number): Promise<Exchange> {
    const isolate = this.isolates[index]!;
    const { policy, life, failures, limiter } = isolate;
    const sentMs = this.nowMs;
    const admit = (...args: Arguments) => this.#call(isolate, args);
    const request = {
      objects: { getByName: () => ({ admit }) } as never,
      requestId: "simulated",
      waitUntil: (promise: Promise<unknown>) => void promise.catch(() => undefined),
    };
    const key = { keyId: KEY_ID, ...policy };
    const hasAnswered = isolate.last === "answer" || isolate.last === "overloaded";
    const { calls } = this;
    const [isRefusing, verdict] = running.run(isolate.part, () => [
      limiter.isRefusing(key),
      limiter.admit(key, request),
    ]);
    if (hasAnswered && !isRefusing && this.calls === calls) this.faults.push("no call was sent");
    const answered = verdict.then((decided) => {
      const atMs = this.nowMs;
      const sawFailure = isolate.failures > failures || atMs >= sentMs + TIMEOUT_MS;
      const exchange = { ...decided, isolate: index, life, policy, sentMs, atMs, sawFailure };
      this.exchanges.push(exchange);
      if (decided.decidedBy === "object") this.#checkAnswer(exchange);
      this.#pending.delete(answered);
      return exchange;
    });
    this.#pending.add(answered);
    return answered;
  }

  async advance(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
  }

  /** Lets time pass until all requests are answered. */
  async drain(): Promise<void> {
    while (this.#pending.size > 0) {
      if (vi.getTimerCount() === 0) await this.advance(0);
      if (vi.getTimerCount() === 0 && this.#pending.size > 0) throw new Error("A request hangs.");
      await vi.advanceTimersToNextTimerAsync();
    }
  }

  /** Waits for all calls, then sets an isolate's clock back so far that the isolate must notice. */
  async setClockBack(index: number): Promise<void> {
    await this.drain();
    this.isolates[index]!.part.skewMs -= 10 * 86_400_000;
  }

  moveObjectClock(ms: number): void {
    this.object.skewMs += ms;
    this.wasClockSet = true;
    if (this.alarmMs !== null) this.#setAlarm(this.alarmMs);
  }

  recover(): void {
    this.wires = [PERFECT];
    this.isDatabaseCut = this.isDiskBroken = false;
  }

  /** Ends the Durable Object's life, and starts the next one from what is on disk. */
  kill(): void {
    const { end } = this.#life;
    this.kills += 1;
    this.#life.isOver = true;
    end.promise.catch(() => undefined);
    end.reject(lost());
    this.rulings.push(this.stored);
    this.#life = this.#start();
  }

  #decide(...args: Parameters<typeof rules.decide>): rules.Decided {
    const [before, policy, , nowMs] = args;
    const decided = originalDecide(...args);
    if (running.getStore() === this.object) {
      const isReset = before !== null && policy.resets > before.resets;
      this.rulings.push({ ...decided, policy, nowMs, isReset });
    }
    return decided;
  }

  /** Checks that the decision is for this request only, and not for an older key version. */
  #checkAnswer({ isolate, life, policy, decision }: Exchange): void {
    const { limits, revision = -1 } = this.#policies.get(decision!) ?? {};
    if (revision < policy.revision) {
      this.faults.push(revision === -1 ? "two requests, one decision" : "an outdated version");
    }
    this.#policies.delete(decision!);
    const now = this.isolates[isolate]!;
    const isLast = now.life === life && now.delivered === decision;
    const isSameKey = revision === now.policy.revision && limits === now.policy.limits;
    const mustRemember = isLast && !now.isVague && !decision!.admitted && isSameKey;
    const key = { keyId: KEY_ID, ...now.policy };
    const isRefusing = running.run(now.part, () => now.limiter.isRefusing(key));
    const lastsMs = (decision!.standsUntilMs ?? 0) - decision!.nowMs;
    // A refusal shorter than the timeout may have expired when the isolate receives it.
    if (mustRemember && lastsMs > TIMEOUT_MS && !isRefusing) {
      this.faults.push("a refusal was not remembered");
    }
    if (isLast && decision!.admitted && isRefusing) this.faults.push("a refusal was not forgotten");
  }

  #newIsolate(index: number, life: number, skewMs: number, policy: QuotaPolicy): Isolate {
    return {
      index,
      life,
      part: { skewMs, events: [] },
      limiter: new Limiter(parseConfig(this.#vars)),
      policy,
      failures: 0,
      last: null,
      underWay: 0,
      delivered: null,
      isVague: false,
    };
  }

  async #call(isolate: Isolate, args: Arguments): Promise<readonly Decision[]> {
    this.calls += 1;
    this.calledMs = this.nowMs;
    const { fate, outMs, backMs } = this.wires[0] ?? PERFECT;
    if (this.wires.length > 1) this.wires.shift();
    const [, refusals, nonce] = args;
    const attempts = this.#attempt(nonce);
    isolate.underWay += 1;
    isolate.last = null;
    let end: Fate | null = fate;
    try {
      await pause(outMs);
      if (fate === "slow retryable") await pause(TIMEOUT_MS - 50 - outMs);
      const answer = await this.#arrive(fate, args);
      await pause(fate === "slow" ? 2 * TIMEOUT_MS : backMs);
      if (fate === "lost") throw new Error("Internal error.");
      this.#deliver(isolate, args, answer);
      return answer;
    } catch (error) {
      if (fate !== "overloaded") end = null;
      const { retryable, overloaded } = Object(error);
      if (retryable && !overloaded) attempts.retryFromMs = this.nowMs;
      isolate.failures += 1;
      if (refusals > 0) this.lostReports += 1;
      throw error;
    } finally {
      isolate.underWay -= 1;
      isolate.last = isolate.underWay === 0 ? end : null;
    }
  }

  async #arrive(fate: Fate, args: Arguments): Promise<readonly Decision[]> {
    if (fate === "error") throw new Error("Internal error.");
    if (fate === "retryable" || fate === "slow retryable") throw lost();
    if (fate === "overloaded") {
      throw Object.assign(new Error("Overloaded."), { retryable: true, overloaded: true });
    }
    const [policy, refusals, nonce] = args;
    if (!this.#decidedMs.has(nonce)) {
      this.#decidedMs.set(nonce, this.nowMs);
      this.reportedRefusals += refusals;
    }
    const life = this.#life;
    const { length } = this.rulings;
    const answer = running.run(this.object, () => life.limiter.admit(...args));
    const isRepeated = life.nonces.has(nonce);
    if (isRepeated && this.rulings.length > length) this.faults.push("a call was counted twice");
    life.nonces.add(nonce);
    answer.catch(() => undefined);
    if (fate === "killed") this.kill();
    if (fate === "lost retryable") throw lost();
    const decided = await Promise.race([answer, life.end.promise]);
    this.#checkWritten(policy, decided);
    return structuredClone(decided);
  }

  /** Records an attempt of a call. Allows two retries, each soon after a temporary failure. */
  #attempt(nonce: string): Attempts {
    const { nowMs } = this;
    const none = { startedMs: nowMs, count: 0, retryFromMs: nowMs };
    const attempts = this.#attempts.get(nonce) ?? none;
    this.#attempts.set(nonce, attempts);
    const { startedMs, count, retryFromMs } = attempts;
    const pauseMs = nowMs - (retryFromMs ?? NaN);
    const isInTime = nowMs < startedMs + TIMEOUT_MS;
    if (!isInTime || count === 3 || !(pauseMs >= 50 * count && pauseMs <= 100 * count)) {
      this.faults.push("a call was sent again");
    }
    attempts.count += 1;
    attempts.retryFromMs = null;
    return attempts;
  }

  /** Checks that each call was sent again after a temporary failure, if there was time. */
  checkRetries(): void {
    for (const { startedMs, count, retryFromMs } of this.#attempts.values()) {
      const retryMs = (retryFromMs ?? Infinity) + 100 * count;
      if (count < 3 && retryMs < startedMs + TIMEOUT_MS) this.faults.push("no call was sent again");
    }
  }

  #deliver(isolate: Isolate, args: Arguments, decisions: readonly Decision[]): void {
    for (const decided of decisions) this.#policies.set(decided, args[0]);
    const last = decisions.at(-1)!;
    isolate.delivered = last;
    isolate.isVague = this.nowMs - this.#attempts.get(args[2])!.startedMs > 1_000;
    if (last.standsUntilMs === null) return;
    const untilMs = this.#decidedMs.get(args[2])! + (last.standsUntilMs - last.nowMs);
    const retryMs = this.#decidedMs.get(args[2])! + (last.retryAtMs! - last.nowMs);
    this.delivered.push({ isolate: isolate.index, untilMs, retryMs });
  }

  #checkWritten({ resets, revision }: QuotaPolicy, decisions: readonly Decision[]): void {
    const { limiter } = this.stored;
    if (limiter !== null && limiter.resets > resets) return;
    if (limiter !== null && limiter.revision < revision) this.faults.push("revision not on disk");
    for (const decision of decisions) {
      if (decision.banned && !limiter?.ban) this.faults.push("ban not on disk");
      for (const name of WINDOW_NAMES) {
        const stored = limiter?.[name] ?? null;
        const { limit, remaining, endsMs } = decision[name];
        const used = limit - remaining;
        const isOther = stored !== null && windowEndMs(name, stored) !== endsMs;
        if (used > 0 && !isOther && (stored?.count ?? 0) < used) {
          this.faults.push(`not on disk: ${JSON.stringify({ stored, limit, remaining })}`);
        }
      }
    }
  }

  #start(): Life {
    let row = this.#disk;
    const nonces = new Set<string>();
    const life = { isOver: false, writes: 0, nonces, end: Promise.withResolvers<never>() };
    const put = (_: string, value: unknown) => {
      if (this.isDiskBroken && this.isPutBroken) throw new Error("disk");
      row = structuredClone(value);
    };
    const storage = {
      kv: { get: () => row, put },
      sync: async () => {
        const writing = row;
        const isBroken = this.isDiskBroken;
        life.writes += 1;
        this.mostWritesAtOnce = Math.max(this.mostWritesAtOnce, life.writes);
        await Promise.race([pause(this.diskMs), life.end.promise.catch(() => undefined)]);
        life.writes -= 1;
        if (life.isOver) return life.end.promise;
        if (isBroken) throw new Error("disk");
        this.#disk = writing;
      },
      getAlarm: async () => this.alarmMs,
      setAlarm: async (dueMs: number) => {
        if (this.isDiskBroken) throw new Error("disk");
        if (!life.isOver) this.#setAlarm(dueMs);
      },
      deleteAll: async () => {
        if (life.isOver) return;
        row = this.#disk = undefined;
        this.alarmMs = null;
        this.rulings.push(this.stored);
      },
    };
    const ctx = {
      id: { name: `key:${KEY_ID}` },
      storage,
      blockConcurrencyWhile: (run: () => Promise<void>) => run(),
      waitUntil: (promise: Promise<unknown>) => void promise.catch(() => undefined),
    };
    const KEYS = {
      prepare: (sql: string) => ({ bind: (...values: unknown[]) => ({ sql, values }) }),
      batch: (statements: readonly Statement[]) => this.#report(statements),
    };
    const start = () => new RateLimiter(ctx as never, { ...this.#vars, KEYS } as never);
    return Object.assign(life, { limiter: running.run(this.object, start) });
  }

  #setAlarm(dueMs: number): void {
    this.alarmMs = dueMs;
    setTimeout(() => {
      if (this.alarmMs !== dueMs) return;
      this.alarmMs = null;
      const life = this.#life;
      const wasCut = this.isDatabaseCut;
      const alarm = running.run(this.object, () => life.limiter.alarm());
      void alarm.then(
        () => {
          if (life.isOver || !wasCut || !this.isDatabaseCut || this.alarmMs === null) return;
          this.longestRetryMs = Math.max(this.longestRetryMs, this.alarmMs - this.objectMs);
        },
        // Cloudflare runs a failed alarm again. In the simulation, this happens after an hour.
        () => this.#setAlarm(this.objectMs + 3_600_000),
      );
    }, dueMs - this.objectMs);
  }

  async #report(statements: readonly Statement[]): Promise<void> {
    // Pause, so that requests are counted while a report is being sent.
    await pause(5_000);
    if (this.isDatabaseCut) throw new Error("D1_ERROR: Network connection lost.");
    for (const { sql, values } of statements) {
      // The names of the columns, and their numbered parameters: an expression has none.
      const names = [.../\((?<names>[^)]+)\) values/.exec(sql)![1]!.matchAll(/\w+/g)].map(String);
      const row = Object.fromEntries(names.map((name, n) => [name, values[n]]));
      if (row["began_at"] !== undefined) {
        this.reportedBans.add(row["began_at"]);
        continue;
      }
      const day = String(row["day"]);
      const totals = ["admitted", "refused", "strikes", "bans"].map((name) => Number(row[name]));
      const before = this.reported.get(day);
      this.reported.set(
        day,
        totals.map((total, n) => Math.max(total, before?.[n] ?? 0)),
      );
    }
  }
}

interface Statement {
  readonly sql: string;
  readonly values: readonly unknown[];
}

type Arguments = Parameters<RateLimiter["admit"]>;

const originalDecide = rules.decide;

/** Starts simulated time before each test. All parts use it, each with its own skew. */
export function simulateTime(): void {
  beforeEach(startTime);
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

function startTime(): void {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: START_MS });
  const now = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => now() + (running.getStore()?.skewMs ?? 0));
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  vi.spyOn(console, "warn").mockImplementation((line: string) => {
    running.getStore()?.events.push((JSON.parse(line) as { event: string }).event);
  });
}

function pause(ms: number): Promise<void> {
  return ms === 0 ? Promise.resolve() : new Promise((resolve) => void setTimeout(resolve, ms));
}

function lost(): Error {
  return Object.assign(new Error("Network connection lost."), { retryable: true });
}
