import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, beforeEach, vi } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { Limiter, type Verdict } from "../../../src/worker/limiter/limiter.ts";
import type { CallDetails } from "../../../src/worker/limiter/object-call.ts";
import { readState, type ReadState } from "../../../src/worker/limiter/stored-state.ts";
import type { BanVars } from "../../rules/limits/histories.ts";
import { START_MS } from "../../rules/limits/simulated-limiter.ts";
import { HOUR_MS } from "../../support/clock.ts";

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

/** What happens in an isolate, at a time on its clock. */
interface InIsolate {
  readonly isolate: Isolate;
  readonly policy: QuotaPolicy;
  readonly atMs: number;
}

/** One attempt of a call. */
type Attempt = InIsolate & CallDetails & { refusals: number; nonce: string };

type Answer = readonly Decision[];

/** What leaves the object, what is on disk then, and how long the object took. */
type Left = { answer: Answer; disk: ReadState; tookMs: number };

/** What the isolate receives at `endedMs`, and when the object decided, in the world's time. */
interface Ended {
  readonly answer: Answer | null;
  readonly error: Fate["error"] | null;
  readonly endedMs: number;
  readonly decidedWorldMs: number;
}

/** Everything that happens, in the order in which it happens. An arrival is on the object's clock. */
export type Happening =
  | (InIsolate & { what: "request"; isRefusing: boolean })
  | (InIsolate & Verdict & { what: "response"; sentMs: number; worldMs: number })
  | (Attempt & { what: "attempt" })
  | (Attempt & { what: "arrival"; nowMs: number; left: Left | null })
  | (Attempt & Ended & { what: "end" })
  | { what: "report"; rows: readonly Readonly<Record<string, unknown>>[] }
  | { what: "deletion"; nowMs: number }
  | { what: "restart"; disk: ReadState };

export type Happened<What> = Extract<Happening, { what: What }>;

/** One life of the Durable Object: from a start to an eviction or a crash. */
interface Life {
  readonly limiter: RateLimiter;
  /** The world's time at which the object decided on a call, by nonce. */
  readonly decidedMs: Map<string, number>;
  readonly end: PromiseWithResolvers<never>;
  isOver: boolean;
}

/** Starts simulated time before each test. All parts use it, each with its own skew. */
export function simulateTime(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: START_MS });
    const now = Date.now.bind(Date);
    // Not a spy, because spies remember each call. The end of the simulated time removes it.
    Date.now = () => now() + (running.getStore()?.skewMs ?? 0);
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
  overlappingWrites = 0;
  alarmMs: number | null = null;
  readonly #vars: object;
  readonly #pending = new Set<Promise<unknown>>();
  #disk: unknown = undefined;
  #life: Life;

  /** @param vars the configuration of isolates and object. */
  constructor(policy: QuotaPolicy, skewsMs: readonly number[], vars: BanVars = {}) {
    this.newest = policy;
    this.#vars = { ...vars, LIMITER_TIMEOUT_MS: TIMEOUT_MS };
    this.bans = parseConfig(this.#vars).bans;
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

  send(index: number): Promise<Happened<"response">> {
    const isolate = this.isolates[index]!;
    const sent = running.run(isolate, () => this.#send(isolate));
    this.#pending.add(sent);
    void sent.then(() => this.#pending.delete(sent));
    return sent;
  }

  /** Sends a request, and lets time pass until all requests are answered. */
  async answerTo(index: number): Promise<Happened<"response">> {
    const sent = this.send(index);
    await this.drain();
    return sent;
  }

  async advance(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
  }

  /** Lets time pass until all requests are answered. */
  async drain(): Promise<void> {
    for (;;) {
      await this.advance(0);
      if (this.#pending.size === 0) return;
      if (vi.getTimerCount() === 0) throw new Error("A request hangs.");
      await vi.advanceTimersToNextTimerAsync();
    }
  }

  moveObjectClock(ms: number): void {
    this.object.skewMs += ms;
    this.wasClockSet = true;
    if (this.alarmMs !== null) this.#setAlarm(this.alarmMs);
  }

  /** Runs the alarm now, if one is set. */
  runAlarm(): void {
    if (this.alarmMs === null) return;
    this.alarmMs = null;
    const { limiter } = this.#life;
    // Cloudflare runs a failed alarm again. In the simulation, this happens after an hour.
    const later = () => this.#setAlarm(this.objectMs + HOUR_MS);
    running.run(this.object, () => limiter.alarm()).catch(later);
  }

  /** Cuts the database for two hours: its object reports every minute meanwhile. */
  cutDatabase(): void {
    this.isDatabaseCut = true;
    setTimeout(() => (this.isDatabaseCut = false), 2 * HOUR_MS);
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
    const limiter = new Limiter(parseConfig(this.#vars));
    return { skewMs, events: [], limiter, policy };
  }

  async #send(isolate: Isolate): Promise<Happened<"response">> {
    const { policy, limiter } = isolate;
    const key = { keyId: KEY_ID, ...policy };
    const isRefusing = limiter.isRefusing(key);
    const sentMs = Date.now();
    this.history.push({ what: "request", isolate, policy, atMs: sentMs, isRefusing });
    const admit = (...args: Parameters<RateLimiter["admit"]>) => this.#attempt(isolate, args);
    const verdict = await limiter.admit(key, {
      objects: { getByName: () => ({ admit }) } as never,
      requestId: "simulated",
      waitUntil: (promise) => void promise.catch(() => undefined),
    });
    const at = { atMs: Date.now(), worldMs: this.nowMs };
    const response = { what: "response" as const, isolate, policy, sentMs, ...at, ...verdict };
    this.history.push(response);
    return response;
  }

  async #attempt(isolate: Isolate, args: Parameters<RateLimiter["admit"]>) {
    const [policy, refusals, nonce, details] = args;
    const attempt = { isolate, policy, refusals, nonce, ...details, atMs: Date.now() };
    this.history.push({ what: "attempt", ...attempt });
    const wire = this.wires.length > 1 ? this.wires.shift()! : this.wires[0]!;
    const fate: Fate = FATES[wire.fate];
    let answer: Answer | null = null;
    let error: Fate["error"] | null = null;
    let decidedWorldMs = NaN;
    try {
      await pause(fate.outMs ?? wire.outMs);
      if (fate.before === "call") throw failure(fate.error);
      const life = this.#life;
      const { nowMs } = this;
      const arrival: Happening = { ...attempt, what: "arrival", nowMs: this.objectMs, left: null };
      this.history.push(arrival);
      decidedWorldMs = life.decidedMs.get(nonce) ?? nowMs;
      life.decidedMs.set(nonce, decidedWorldMs);
      const leaving = running.run(this.object, () => life.limiter.admit(...args));
      const leave = (decisions: Answer) => {
        const left = { answer: structuredClone(decisions), disk: this.stored };
        if (!life.isOver) arrival.left = { ...left, tookMs: this.nowMs - nowMs };
      };
      leaving.then(leave, () => undefined);
      if (fate.isKilled) this.kill();
      if (fate.before === "write") throw failure(fate.error);
      const left = await Promise.race([leaving, life.end.promise]);
      await pause(fate.backMs ?? wire.backMs);
      if (fate.error !== undefined) throw failure(fate.error);
      return (answer = structuredClone(left));
    } catch (thrown) {
      error = thrown as Fate["error"];
      throw thrown;
    } finally {
      const ended = { endedMs: Date.now(), answer, error, decidedWorldMs };
      this.history.push({ what: "end", ...attempt, ...ended });
    }
  }

  #start(): Life {
    let row = this.#disk;
    let isWriting = false;
    const end = Promise.withResolvers<never>();
    const life = { decidedMs: new Map<string, number>(), end, isOver: false };
    const put = (_: string, value: unknown) => {
      if (this.brokenDisk === "put") throw new Error("disk");
      row = structuredClone(value);
    };
    const storage = {
      kv: { get: () => row, put },
      sync: async () => {
        const writing = row;
        const isBroken = this.brokenDisk !== null;
        this.overlappingWrites += Number(isWriting);
        isWriting = true;
        await Promise.race([pause(this.diskMs), end.promise.catch(() => undefined)]);
        isWriting = false;
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
    const env = { ...this.#vars, KEYS };
    const start = () => new RateLimiter(ctx as never, env as never);
    return Object.assign(life, { limiter: running.run(this.object, start) });
  }

  #setAlarm(dueMs: number): void {
    this.alarmMs = dueMs;
    setTimeout(() => this.alarmMs === dueMs && this.runAlarm(), dueMs - this.objectMs);
  }
}

function pause(ms: number): Promise<void> {
  return ms === 0 ? Promise.resolve() : new Promise((resolve) => void setTimeout(resolve, ms));
}

function failure(properties: Fate["error"]): Error {
  return Object.assign(new Error("The call failed."), properties);
}

const columnsOf = new Map<string, string[]>();

/** Returns the values of an INSERT by the names of its columns. */
function rowOf(sql: string, values: readonly unknown[]) {
  const columns = columnsOf.get(sql) ?? /\(([^)]+)\) values/.exec(sql)![1]!.match(/\w+/g)!;
  columnsOf.set(sql, columns);
  return Object.fromEntries(columns.map((name, n) => [name, values[n]]));
}
