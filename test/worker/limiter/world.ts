import { afterEach, beforeEach, vi } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { LimiterState, QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { Limiter, type Verdict } from "../../../src/worker/limiter/limiter.ts";
import { readState } from "../../../src/worker/limiter/stored-state.ts";
import { START_MS } from "../../rules/limits/simulated-limiter.ts";
import { HOUR_MS } from "../../support/clock.ts";
import { type Answer, type Call, type Row, TIMEOUT_MS, Witness } from "./witness.ts";

const KEY_ID = "simulated";

const LOST = { retryable: true };

/** The latency of a call in milliseconds each way, and how it fails. */
export interface Wire {
  readonly outMs: number;
  readonly backMs: number;
  /** The properties of the error that the isolate receives. */
  readonly error?: { readonly retryable?: boolean; readonly overloaded?: boolean };
  /** The error comes before the call arrives, or before the object's write ends. */
  readonly before?: "call" | "write";
  readonly isKilled?: boolean;
}

const PERFECT: Wire = { outMs: 0, backMs: 0 };

/** The ways in which a call to the Durable Object can fail. */
export const FAULTS: readonly Partial<Wire>[] = [
  { backMs: 2 * TIMEOUT_MS },
  { error: {}, before: "call" },
  { error: LOST, before: "call" },
  { error: LOST, before: "call", outMs: TIMEOUT_MS - 50 },
  { error: { retryable: true, overloaded: true }, before: "call" },
  { error: {} },
  { error: LOST, before: "write" },
  { isKilled: true },
];

export interface Isolate {
  readonly limiter: Limiter;
  policy: QuotaPolicy;
  /** How far its clock is behind the object's clock, in milliseconds. */
  readonly behindMs: number;
  /** The number of refusals that it repeated from memory, and of those that it reported. */
  repeated: number;
  reported: number;
  hasFailed: boolean;
  /** The state of its fallback limiter. */
  alone: LimiterState | null;
}

/** One life of the Durable Object: from a start to an eviction or a crash. */
interface Life {
  readonly limiter: RateLimiter;
  isOver: boolean;
}

/** Starts simulated time before each test. */
export function simulateTime(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: START_MS });
    vi.spyOn(Math, "random").mockReturnValue(0.5);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

/**
 * Runs the real limiter of one key in several isolates, and the real Durable Object on a simulated
 * disk. Time passes only in `advance` and `answerTo`.
 */
export class World {
  readonly bans: BanPolicy;
  readonly isolates: readonly Isolate[];
  readonly witness: Witness;
  newest: QuotaPolicy;
  /** The next calls, in order. The last entry also serves later calls. */
  wires: Wire[] = [PERFECT];
  isDatabaseCut = false;
  isDiskBroken = false;
  diskMs = 3;
  alarmMs: number | null = null;
  /** The time that the last refusal announced. */
  retryAtMs = 0;
  readonly #vars: object;
  /** When the first attempt of a call began, by its nonce. */
  readonly #beganMs = new Map<string, number>();
  #disk: unknown = undefined;
  #life: Life;

  /** @param vars the configuration of isolates and object. */
  constructor(policy: QuotaPolicy, behindMs: readonly number[], vars: object = {}) {
    this.newest = policy;
    this.#vars = { ...vars, LIMITER_TIMEOUT_MS: TIMEOUT_MS };
    const config = parseConfig(this.#vars);
    this.bans = config.bans;
    this.isolates = behindMs.map((ms) => {
      const seen = { repeated: 0, reported: 0, hasFailed: false, alone: null };
      return { limiter: new Limiter(config), policy, behindMs: ms, ...seen };
    });
    this.witness = new Witness(this.bans);
    vi.spyOn(console, "warn").mockImplementation((line: string) => this.witness.logs(line));
    this.#life = this.#start();
  }

  get stored(): LimiterState | null {
    return readState(this.#disk).limiter;
  }

  /** Changes the key. An isolate uses the new version after a call of `learn`. */
  change(changes: Partial<QuotaPolicy>): void {
    this.newest = { ...this.newest, ...changes, revision: this.newest.revision + 1 };
  }

  learn(...indexes: readonly number[]): void {
    for (const index of indexes) this.isolates[index]!.policy = this.newest;
  }

  async send(index: number): Promise<Verdict> {
    const isolate = this.isolates[index]!;
    const { policy, limiter } = isolate;
    const sentMs = Date.now();
    this.witness.unanswered += 1;
    const admit = (...call: Call) => this.#attempt(isolate, call);
    const verdict = await limiter.admit(
      { keyId: KEY_ID, ...policy },
      {
        objects: { getByName: () => ({ admit }) } as never,
        requestId: "simulated",
        waitUntil: (promise) => void promise.catch(() => undefined),
      },
    );
    const { retryAtMs = null, nowMs = 0 } = verdict.decision ?? {};
    if (retryAtMs !== null) this.retryAtMs = Date.now() + retryAtMs - nowMs;
    this.witness.responds({ isolate, policy, sentMs }, verdict, Date.now());
    return verdict;
  }

  /** Sends a request, and lets time pass until the object has answered. */
  async answerTo(index: number): Promise<Verdict> {
    const sent = this.send(index);
    await this.advance(2 * this.diskMs);
    return sent;
  }

  async advance(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
  }

  recover(): void {
    this.wires = [PERFECT];
    this.isDatabaseCut = this.isDiskBroken = false;
  }

  /** Ends the Durable Object's life, and starts the next one from what is on disk. */
  kill(): void {
    this.#life.isOver = true;
    this.#life = this.#start();
  }

  async #attempt(isolate: Isolate, call: Call): Promise<Answer> {
    const nonce = call[2];
    const beganMs = this.#beganMs.get(nonce) ?? Date.now();
    if (!this.#beganMs.has(nonce)) this.witness.calls(isolate, call);
    this.#beganMs.set(nonce, beganMs);
    const isInTime = Date.now() < beganMs + TIMEOUT_MS;
    this.witness.claim(isInTime, "A call is sent again only while a request waits for it.");
    const wire = this.wires.length > 1 ? this.wires.shift()! : this.wires[0]!;
    const fail = () => (isolate.hasFailed = true);
    const deadline = setTimeout(fail, TIMEOUT_MS);
    try {
      await pause(wire.outMs);
      if (wire.before === "call") throw failure(wire);
      const life = this.#life;
      const arrivedMs = Date.now();
      this.witness.arrives(call, arrivedMs);
      const leaving = life.limiter.admit(...call);
      const leave = (answer: Answer) => {
        const writes = (Date.now() - arrivedMs) / this.diskMs;
        if (!life.isOver) this.witness.leaves(nonce, answer, this.stored, writes);
      };
      leaving.then(leave, () => undefined);
      if (wire.isKilled) this.kill();
      if (wire.before === "write") throw failure(wire);
      const answer = earlier(await leaving, isolate.behindMs);
      if (life.isOver) throw failure({ error: LOST });
      await pause(wire.backMs);
      if (wire.error !== undefined) throw failure(wire);
      this.witness.receives(call, answer);
      return answer;
    } catch (error) {
      fail();
      throw error;
    } finally {
      clearTimeout(deadline);
    }
  }

  #start(): Life {
    let row = this.#disk;
    this.witness.starts(this.stored);
    const storage = {
      kv: { get: () => row, put: (_: string, value: unknown) => (row = structuredClone(value)) },
      sync: async () => {
        const writing = row;
        const isBroken = this.isDiskBroken;
        await pause(this.diskMs);
        if (life.isOver) throw failure({ error: LOST });
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
        this.witness.deletes(Date.now());
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
      batch: async (rows: readonly Row[]) => {
        // Requests are counted while a report is being sent.
        await pause(5_000);
        if (this.isDatabaseCut) throw new Error("D1_ERROR: Network connection lost.");
        this.witness.reports(rows);
      },
    };
    const limiter = new RateLimiter(ctx as never, { ...this.#vars, KEYS } as never);
    const life = { limiter, isOver: false };
    return life;
  }

  #setAlarm(dueMs: number): void {
    this.alarmMs = dueMs;
    const run = () => {
      if (this.alarmMs !== dueMs) return;
      this.alarmMs = null;
      // Cloudflare runs a failed alarm again. In the simulation, this happens after an hour.
      this.#life.limiter.alarm().catch(() => this.#setAlarm(Date.now() + HOUR_MS));
    };
    setTimeout(run, dueMs - Date.now());
  }
}

function pause(ms: number): Promise<void> {
  return ms === 0 ? Promise.resolve() : new Promise((resolve) => void setTimeout(resolve, ms));
}

function failure({ error }: Partial<Wire>): Error {
  return Object.assign(new Error("The call failed."), error);
}

/** Returns an answer as of an isolate whose clock is behind: with earlier times. */
function earlier(answer: Answer, behindMs: number): Answer {
  const isTime = (value: unknown) => typeof value === "number" && value > START_MS / 2;
  const shift = (_: string, value: unknown) => (isTime(value) ? Number(value) - behindMs : value);
  return JSON.parse(JSON.stringify(answer), shift) as Answer;
}

/** Returns the values of an INSERT by the names of its columns. */
function rowOf(sql: string, values: readonly unknown[]): Row {
  const columns = /\(([^)]+)\) values/.exec(sql)![1]!.match(/\w+/g)!;
  return Object.fromEntries(columns.map((name, n) => [name, values[n]]));
}
