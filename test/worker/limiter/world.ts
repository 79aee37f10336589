import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, beforeEach, vi } from "vitest";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { Limiter, type Verdict } from "../../../src/worker/limiter/limiter.ts";
import type { CallDetails } from "../../../src/worker/limiter/object-call.ts";
import { readState, type ReadState } from "../../../src/worker/limiter/stored-state.ts";
import { banVars, START_MS } from "../../rules/limits/simulated-limiter.ts";

export const TIMEOUT_MS = 5_000;

const KEY_ID = "simulated";

const LOST = { retryable: true };

/**
 * The ways in which a call to the Durable Object can end. `error` has the properties of the error
 * that the isolate receives: `before` the call arrives, or before the object's write ends.
 */
export const FATES = {
  answer: {},
  slow: { backMs: 2 * TIMEOUT_MS },
  error: { error: {}, before: "call" },
  retryable: { error: LOST, before: "call" },
  tooLateToRetry: { error: LOST, before: "call", outMs: TIMEOUT_MS - 50 },
  overloaded: { error: { retryable: true, overloaded: true }, before: "call" },
  lost: { error: {} },
  lostRetryable: { error: LOST, before: "write" },
  killed: { isKilled: true },
} as const;

type Fate = Partial<Record<"outMs" | "backMs", number>> & {
  readonly error?: { readonly retryable?: boolean; readonly overloaded?: boolean };
  readonly before?: "call" | "write";
  readonly isKilled?: boolean;
};

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
export interface Isolate extends Part {
  readonly limiter: Limiter;
  policy: QuotaPolicy;
}

/** A request before and after an isolate's limiter decides on it. Times are the isolate's. */
interface Request {
  readonly isolate: Isolate;
  readonly policy: QuotaPolicy;
  readonly sentMs: number;
  readonly isRefusing: boolean;
}

export interface Response extends Request, Verdict {
  readonly what: "response";
  readonly answeredMs: number;
  readonly worldMs: number;
}

/** One attempt of a call. Times are the isolate's. */
interface Attempt extends CallDetails {
  readonly isolate: Isolate;
  readonly policy: QuotaPolicy;
  readonly refusals: number;
  readonly nonce: string;
  readonly sentMs: number;
}

/** The end of an attempt, as the isolate sees it: the answer or an error. */
export interface End extends Attempt {
  readonly what: "end";
  readonly answer: readonly Decision[] | null;
  readonly error: Fate["error"] | null;
  readonly endedMs: number;
  /** The world's time at which the object first decided on this call. */
  readonly decidedWorldMs: number;
}

/** A call that reaches the object at `nowMs` on its clock. */
interface Arrival extends Attempt {
  readonly what: "arrival";
  readonly nowMs: number;
  /** What leaves the object, and what is on disk then. */
  left: { readonly answer: readonly Decision[]; readonly disk: ReadState } | null;
}

/** Everything that happens, in the order in which it happens. */
export type Happening =
  | ({ readonly what: "request" } & Request)
  | ({ readonly what: "attempt" } & Attempt)
  | (Response | Arrival | End)
  | { readonly what: "report"; readonly rows: readonly Readonly<Record<string, unknown>>[] }
  | { readonly what: "deletion"; readonly nowMs: number }
  | { readonly what: "restart"; readonly disk: ReadState };

/** One life of the Durable Object: from a start to an eviction or a crash. */
interface Life {
  readonly limiter: RateLimiter;
  readonly nonces: Set<string>;
  readonly end: PromiseWithResolvers<never>;
  isOver: boolean;
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
  alarmMs: number | null = null;
  writesAtOnce = 0;
  /** The world's time at which the object decided on a call, by nonce. */
  readonly #decidedMs = new Map<string, number>();
  readonly #pending = new Set<Promise<unknown>>();
  #disk: unknown = undefined;
  #life: Life;

  constructor(policy: QuotaPolicy, bans: BanPolicy, skewsMs: readonly number[]) {
    this.newest = policy;
    this.bans = bans;
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
    const { skewMs, policy } = this.isolates[index]!;
    this.isolates[index] = this.#newIsolate(skewMs, policy);
  }

  /** Changes the key. An isolate uses the new version after a call of `learn`. */
  change(changes: Partial<QuotaPolicy>): void {
    this.newest = { ...this.newest, ...changes, revision: this.newest.revision + 1 };
  }

  learn(...indexes: readonly number[]): void {
    for (const index of indexes) this.isolates[index]!.policy = this.newest;
  }

  send(index: number): Promise<Response> {
    const isolate = this.isolates[index]!;
    const sent = running.run(isolate, () => this.#send(isolate));
    this.#pending.add(sent);
    void sent.then(() => this.#pending.delete(sent));
    return sent;
  }

  /** Sends a request, and lets time pass until all requests are answered. */
  async answerTo(index: number): Promise<Response> {
    const sent = this.send(index);
    await this.drain();
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
    end.reject(failure(LOST));
    this.history.push({ what: "restart", disk: this.stored });
    this.#life = this.#start();
  }

  #newIsolate(skewMs: number, policy: QuotaPolicy): Isolate {
    const limiter = new Limiter({ bans: this.bans, limiterTimeoutMs: TIMEOUT_MS });
    return { skewMs, events: [], limiter, policy };
  }

  async #send(isolate: Isolate): Promise<Response> {
    const { policy, limiter } = isolate;
    const key = { keyId: KEY_ID, ...policy };
    const isRefusing = limiter.isRefusing(key);
    const request = { isolate, policy, sentMs: Date.now(), isRefusing };
    this.history.push({ what: "request", ...request });
    const admit = (...args: Parameters<RateLimiter["admit"]>) => this.#attempt(isolate, args);
    const verdict = await limiter.admit(key, {
      objects: { getByName: () => ({ admit }) } as never,
      requestId: "simulated",
      waitUntil: (promise) => void promise.catch(() => undefined),
    });
    const times = { answeredMs: Date.now(), worldMs: this.nowMs };
    const response = { what: "response" as const, ...request, ...verdict, ...times };
    this.history.push(response);
    return response;
  }

  async #attempt(isolate: Isolate, args: Parameters<RateLimiter["admit"]>) {
    const [policy, refusals, nonce, details] = args;
    const attempt = { isolate, policy, refusals, nonce, ...details, sentMs: Date.now() };
    this.history.push({ what: "attempt", ...attempt });
    this.attempts += 1;
    this.lastAttemptMs = this.nowMs;
    const wire = this.wires.length > 1 ? this.wires.shift()! : this.wires[0]!;
    const fate: Fate = FATES[wire.fate];
    const end = (answer: End["answer"], error: End["error"]) => {
      const decidedWorldMs = this.#decidedMs.get(nonce) ?? NaN;
      const ended = { answer, error, endedMs: Date.now(), decidedWorldMs };
      this.history.push({ what: "end", ...attempt, ...ended });
    };
    try {
      await pause(fate.outMs ?? wire.outMs);
      if (fate.before === "call") throw failure(fate.error);
      const left = await this.#arrive(fate, attempt, args);
      await pause(fate.backMs ?? wire.backMs);
      if (fate.error !== undefined) throw failure(fate.error);
      const answer = structuredClone(left);
      end(answer, null);
      return answer;
    } catch (error) {
      end(null, error as Fate["error"]);
      throw error;
    }
  }

  async #arrive(fate: Fate, attempt: Attempt, args: Parameters<RateLimiter["admit"]>) {
    const life = this.#life;
    const arrival: Arrival = { what: "arrival", ...attempt, nowMs: this.objectMs, left: null };
    this.history.push(arrival);
    if (!life.nonces.has(attempt.nonce)) this.#decidedMs.set(attempt.nonce, this.nowMs);
    life.nonces.add(attempt.nonce);
    const leaving = running.run(this.object, () => life.limiter.admit(...args));
    leaving.then(
      (answer) => {
        if (!life.isOver) arrival.left = { answer: structuredClone(answer), disk: this.stored };
      },
      () => undefined,
    );
    if (fate.isKilled) this.kill();
    if (fate.before === "write") throw failure(fate.error);
    return Promise.race([leaving, life.end.promise]);
  }

  #start(): Life {
    let row = this.#disk;
    let writes = 0;
    const end = Promise.withResolvers<never>();
    const life = { nonces: new Set<string>(), end, isOver: false };
    const put = (_: string, value: unknown) => {
      if (this.brokenDisk === "put") throw new Error("disk");
      row = structuredClone(value);
    };
    const storage = {
      kv: { get: () => row, put },
      sync: async () => {
        const writing = row;
        const isBroken = this.brokenDisk !== null;
        this.writesAtOnce = Math.max(this.writesAtOnce, ++writes);
        await Promise.race([pause(this.diskMs), end.promise.catch(() => undefined)]);
        writes -= 1;
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
      batch: async (rows: readonly Readonly<Record<string, unknown>>[]) => {
        // Requests are counted while a report is being sent.
        await pause(5_000);
        if (this.isDatabaseCut) throw new Error("D1_ERROR: Network connection lost.");
        this.history.push({ what: "report", rows });
      },
    };
    const env = { ...banVars(this.bans), LIMITER_TIMEOUT_MS: TIMEOUT_MS, KEYS };
    const start = () => new RateLimiter(ctx as never, env as never);
    return Object.assign(life, { limiter: running.run(this.object, start) });
  }

  #setAlarm(dueMs: number): void {
    this.alarmMs = dueMs;
    setTimeout(() => {
      if (this.alarmMs !== dueMs) return;
      this.alarmMs = null;
      const { limiter } = this.#life;
      // Cloudflare runs a failed alarm again. In the simulation, this happens after an hour.
      const later = () => this.#setAlarm(this.objectMs + 3_600_000);
      running.run(this.object, () => limiter.alarm()).catch(later);
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
function rowOf(sql: string, values: readonly unknown[]) {
  const columns = /\(([^)]+)\) values/.exec(sql)![1]!.matchAll(/\w+/g);
  return Object.fromEntries([...columns].map(([name], n) => [name, values[n]]));
}
