import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, beforeEach, vi } from "vitest";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { Limits } from "../../../src/rules/limits/plans.ts";
import { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { Limiter, type Verdict } from "../../../src/worker/limiter/limiter.ts";
import { readState, type ReadState } from "../../../src/worker/limiter/stored-state.ts";
import { START_MS } from "../../rules/limits/simulated-limiter.ts";

export const TIMEOUT_MS = 5_000;

const KEY_ID = "simulated";

interface Fate {
  /** The properties of the error that the isolate receives; by default, it receives the answer. */
  readonly error?: { readonly retryable?: true; readonly overloaded?: true };
  /** Whether the error comes before the call arrives, or before the object's write ends. */
  readonly fails?: "before the call" | "before the write";
  readonly outMs?: number;
  readonly backMs?: number;
  /** Whether the object dies after its decision, before its write ends. */
  readonly isKilled?: true;
}

/** The ways in which a call to the Durable Object can end. */
export const FATES = {
  answer: {},
  slow: { backMs: 2 * TIMEOUT_MS },
  error: { error: {}, fails: "before the call" },
  retryable: { error: { retryable: true }, fails: "before the call" },
  tooLateToRetry: { error: { retryable: true }, fails: "before the call", outMs: TIMEOUT_MS - 50 },
  overloaded: { error: { retryable: true, overloaded: true }, fails: "before the call" },
  lost: { error: {} },
  lostRetryable: { error: { retryable: true }, fails: "before the write" },
  killed: { isKilled: true },
} as const satisfies Record<string, Fate>;

/** The fate of a call, and its latency in milliseconds each way. */
export interface Wire {
  readonly fate: keyof typeof FATES;
  readonly outMs: number;
  readonly backMs: number;
}

export const PERFECT: Wire = { fate: "answer", outMs: 0, backMs: 0 };

/** An isolate or the Durable Object: something with a clock and a log of its own. */
interface Part {
  /** How far the part's clock is ahead of the world's clock, in milliseconds. */
  skewMs: number;
  readonly events: string[];
}

const running = new AsyncLocalStorage<Part>();

/** One life of an isolate. */
export interface Isolate {
  readonly part: Part;
  readonly limiter: Limiter;
  policy: QuotaPolicy;
}

/** A request that an isolate's limiter decides on. Times are the isolate's, unless named. */
export interface Request {
  readonly isolate: Isolate;
  readonly policy: QuotaPolicy;
  readonly sentMs: number;
  readonly isRefusing: boolean;
  verdict: Verdict;
  answeredMs: number;
  answeredWorldMs: number;
}

/** One attempt of a call. Times are the isolate's, unless named. */
export interface Attempt {
  readonly isolate: Isolate;
  readonly policy: QuotaPolicy;
  readonly refusals: number;
  readonly nonce: string;
  readonly requests: number;
  readonly wait: Parameters<RateLimiter["admit"]>[3]["wait"];
  readonly sentMs: number;
  endedMs: number;
  answer: readonly Decision[] | null;
  /** The world's time at which the object decided on this answer. */
  decidedWorldMs: number;
  error: Fate["error"] | null;
}

/** A call that reaches the object. `answer` is what leaves the object, `disk` what it holds then. */
export interface Arrival {
  readonly attempt: Attempt;
  readonly nowMs: number;
  answer: readonly Decision[] | null;
  disk: ReadState | null;
}

/** Totals of a day, or the beginning of a ban, as the database receives them. */
export type Reported = Readonly<Record<string, unknown>>;

/** Everything that happens, in the order in which it happens. */
export type Happening =
  | { readonly what: "request" | "response"; readonly request: Request }
  | { readonly what: "attempt" | "end"; readonly attempt: Attempt }
  | { readonly what: "arrival"; readonly arrival: Arrival }
  | { readonly what: "report"; readonly rows: readonly Reported[] }
  | { readonly what: "deletion"; readonly nowMs: number }
  | { readonly what: "restart"; readonly disk: ReadState };

/** One life of the Durable Object: from a start to an eviction or a crash. */
interface Life {
  readonly limiter: RateLimiter;
  readonly decidedMs: Map<string, number>;
  readonly end: PromiseWithResolvers<never>;
  isOver: boolean;
  writes: number;
}

/**
 * Runs the real limiter of one key in several isolates, and the real Durable Object on a simulated
 * disk. Each of them has its own clock. Time passes only in `advance` and `drain`.
 */
export class World {
  readonly history: Happening[] = [];
  readonly bans: BanPolicy;
  readonly isolates: Isolate[];
  readonly object: Part = { skewMs: 0, events: [] };
  newest: QuotaPolicy;
  /** The next calls, in order. The last entry also serves later calls. */
  wires: Wire[] = [PERFECT];
  isDatabaseCut = false;
  brokenDisk: "put" | "sync" | null = null;
  diskMs = 3;
  wasClockSet = false;
  attempts = 0;
  lastAttemptMs = 0;
  mostWritesAtOnce = 0;
  alarmMs: number | null = null;
  /** The longest time between a failed report and the alarm that repeats the report. */
  longestRetryMs = 0;
  readonly #vars: object;
  readonly #pending = new Set<Promise<unknown>>();
  #disk: unknown = undefined;
  #life: Life;

  constructor(policy: QuotaPolicy, bans: BanPolicy, skewsMs: readonly number[]) {
    this.newest = policy;
    this.bans = bans;
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
    this.isolates = skewsMs.map((skewMs) => this.#newIsolate(skewMs, policy));
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
    const { part, policy } = this.isolates[index]!;
    this.isolates[index] = this.#newIsolate(part.skewMs, policy);
  }

  /** Changes the key. An isolate uses the new version after a call of `learn`. */
  change(changes: Partial<QuotaPolicy>): void {
    this.newest = { ...this.newest, ...changes, revision: this.newest.revision + 1 };
  }

  /** Changes the limits of the key's plan. The revision of the key does not change. */
  deploy(limits: Limits): void {
    this.newest = { ...this.newest, limits };
  }

  learn(...indexes: readonly number[]): void {
    for (const index of indexes) this.isolates[index]!.policy = this.newest;
  }

  send(index: number): Promise<Request> {
    const isolate = this.isolates[index]!;
    const { policy, limiter } = isolate;
    const key = { keyId: KEY_ID, ...policy };
    const admit = (...args: Parameters<RateLimiter["admit"]>) => this.#attempt(isolate, args);
    const sent = running.run(isolate.part, async () => {
      const sentMs = Date.now();
      const isRefusing = limiter.isRefusing(key);
      const request = { isolate, policy, sentMs, isRefusing } as Request;
      this.history.push({ what: "request", request });
      request.verdict = await limiter.admit(key, {
        objects: { getByName: () => ({ admit }) } as never,
        requestId: "simulated",
        waitUntil: (promise) => void promise.catch(() => undefined),
      });
      request.answeredMs = Date.now();
      request.answeredWorldMs = this.nowMs;
      this.history.push({ what: "response", request });
      return request;
    });
    this.#pending.add(sent);
    void sent.then(() => this.#pending.delete(sent));
    return sent;
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

  async answerTo(index: number): Promise<Verdict> {
    const sent = this.send(index);
    await this.drain();
    return (await sent).verdict;
  }

  moveObjectClock(ms: number): void {
    this.object.skewMs += ms;
    this.wasClockSet = true;
    if (this.alarmMs !== null) this.#setAlarm(this.alarmMs);
  }

  recover(): void {
    this.wires = [PERFECT];
    this.isDatabaseCut = false;
    this.brokenDisk = null;
  }

  /** Ends the Durable Object's life, and starts the next one from what is on disk. */
  kill(): void {
    const { end } = this.#life;
    this.#life.isOver = true;
    end.promise.catch(() => undefined);
    end.reject(failure({ retryable: true }));
    this.history.push({ what: "restart", disk: this.stored });
    this.#life = this.#start();
  }

  #newIsolate(skewMs: number, policy: QuotaPolicy): Isolate {
    const limiter = new Limiter({ bans: this.bans, limiterTimeoutMs: TIMEOUT_MS });
    return { part: { skewMs, events: [] }, limiter, policy };
  }

  async #attempt(isolate: Isolate, args: Parameters<RateLimiter["admit"]>) {
    const [policy, refusals, nonce, { requests, wait }] = args;
    const wire = this.wires.length > 1 ? this.wires.shift()! : this.wires[0]!;
    const fate: Fate = FATES[wire.fate];
    const call = { isolate, policy, refusals, nonce, requests, wait, sentMs: Date.now() };
    const attempt: Attempt = {
      ...call,
      endedMs: Infinity,
      answer: null,
      decidedWorldMs: 0,
      error: null,
    };
    this.attempts += 1;
    this.lastAttemptMs = this.nowMs;
    this.history.push({ what: "attempt", attempt });
    try {
      await pause(fate.outMs ?? wire.outMs);
      if (fate.fails === "before the call") throw failure(fate.error);
      const answer = await this.#arrive(fate, attempt, args);
      await pause(fate.backMs ?? wire.backMs);
      if (fate.error !== undefined) throw failure(fate.error);
      return (attempt.answer = structuredClone(answer));
    } catch (error) {
      attempt.error = error as Fate["error"];
      throw error;
    } finally {
      attempt.endedMs = Date.now();
      this.history.push({ what: "end", attempt });
    }
  }

  async #arrive(fate: Fate, attempt: Attempt, args: Parameters<RateLimiter["admit"]>) {
    const life = this.#life;
    const arrival: Arrival = { attempt, nowMs: this.objectMs, answer: null, disk: null };
    this.history.push({ what: "arrival", arrival });
    if (!life.decidedMs.has(attempt.nonce)) life.decidedMs.set(attempt.nonce, this.nowMs);
    attempt.decidedWorldMs = life.decidedMs.get(attempt.nonce)!;
    const leaving = running
      .run(this.object, () => life.limiter.admit(...args))
      .then((answer) => {
        if (!life.isOver) [arrival.answer, arrival.disk] = [structuredClone(answer), this.stored];
        return answer;
      });
    leaving.catch(() => undefined);
    if (fate.isKilled) this.kill();
    if (fate.fails === "before the write") throw failure(fate.error);
    return Promise.race([leaving, life.end.promise]);
  }

  #start(): Life {
    let row = this.#disk;
    const end = Promise.withResolvers<never>();
    const life = { decidedMs: new Map<string, number>(), end, isOver: false, writes: 0 };
    const storage = {
      kv: {
        get: () => row,
        put: (_: string, value: unknown) => {
          if (this.brokenDisk === "put") throw new Error("disk");
          row = structuredClone(value);
        },
      },
      sync: async () => {
        const writing = row;
        const isBroken = this.brokenDisk !== null;
        life.writes += 1;
        this.mostWritesAtOnce = Math.max(this.mostWritesAtOnce, life.writes);
        await Promise.race([pause(this.diskMs), end.promise.catch(() => undefined)]);
        life.writes -= 1;
        if (life.isOver) return end.promise;
        if (isBroken) throw new Error("disk");
        this.#disk = writing;
      },
      getAlarm: async () => this.alarmMs,
      setAlarm: async (dueMs: number) => {
        if (this.brokenDisk !== null) throw new Error("disk");
        if (!life.isOver) this.#setAlarm(dueMs);
      },
      deleteAll: async () => {
        if (life.isOver) return;
        row = this.#disk = undefined;
        this.alarmMs = null;
        this.history.push({ what: "deletion", nowMs: this.objectMs });
      },
    };
    const ctx = {
      id: { name: `key:${KEY_ID}` },
      storage,
      blockConcurrencyWhile: (run: () => Promise<void>) => run(),
      waitUntil: (promise: Promise<unknown>) => void promise.catch(() => undefined),
    };
    const KEYS = {
      prepare: (sql: string) => ({ bind: (...values: unknown[]) => rowOf(sql, values) }),
      batch: async (rows: readonly Reported[]) => {
        // Requests are counted while a report is being sent.
        await pause(5_000);
        if (this.isDatabaseCut) throw new Error("D1_ERROR: Network connection lost.");
        this.history.push({ what: "report", rows });
      },
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
}

/** Starts simulated time before each test. All parts use it, each with its own skew. */
export function simulateTime(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: START_MS });
    const now = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => now() + (running.getStore()?.skewMs ?? 0));
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    vi.spyOn(console, "warn").mockImplementation((line: string) => {
      running.getStore()?.events.push((JSON.parse(line) as { event: string }).event);
    });
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

function pause(ms: number): Promise<void> {
  return ms === 0 ? Promise.resolve() : new Promise((resolve) => void setTimeout(resolve, ms));
}

function failure(properties: Fate["error"]): Error {
  return Object.assign(new Error("The call failed."), properties);
}

/** Returns the values of an INSERT by the names of its columns. */
function rowOf(sql: string, values: readonly unknown[]): Reported {
  const columns = /\((?<names>[^)]+)\) values/.exec(sql)![1]!.matchAll(/\w+/g);
  return Object.fromEntries([...columns].map(([name], n) => [name, values[n]]));
}
