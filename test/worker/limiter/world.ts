import { vi } from "vitest";
import { type Config, parseConfig } from "../../../src/rules/config.ts";
import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import type { Decision, Quota } from "../../../src/rules/limits/decision.ts";
import type { LimiterState, QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { Limiter, type Verdict } from "../../../src/worker/limiter/limiter.ts";
import { readState } from "../../../src/worker/limiter/stored-state.ts";
import { KEY_ID, UsageDatabase } from "../usage/usage-database.ts";
import { type Answer, asOf, type Call, TIMEOUT_MS, Witness } from "./witness.ts";

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

export const PERFECT: Wire = { outMs: 0, backMs: 0 };

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

export type Isolate = ReturnType<typeof startIsolate>;

/** @param behindMs how far its clock is behind the object's clock. */
function startIsolate(config: Config, policy: QuotaPolicy, behindMs: number) {
  return {
    limiter: new Limiter(config),
    policy,
    behindMs,
    /** The calls that are under way, by nonce, with the timers of their deadlines. */
    calls: new Map<string, ReturnType<typeof setTimeout>>(),
    /** Whether its last call has failed for good, and when the last one did. */
    isFailing: false,
    failedMs: -Infinity,
    /** The number of refusals that it repeated from memory, and of those that it reported. */
    repeated: 0,
    reported: 0,
    /** Whether a call of a look has failed, and the time of the last one. */
    isBlind: false,
    peekedMs: 0,
    /** Whether its fallback has decided since it last heard from the object. */
    isAlone: false,
    /** Whether its fallback has admitted a cancellation of which the object has not heard. */
    hasCancelled: false,
    /** When the object last told it that it has heard of cancellations. */
    heardMs: -Infinity,
    /** The newest decision by the object that it has answered with. */
    decision: null as Decision | null,
  };
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
  lookWires: Wire[] = [PERFECT];
  /** The verdicts in the order of the requests, and every row that an object has written. */
  readonly verdicts: (Verdict | null)[] = [];
  readonly rows: unknown[] = [];
  isDiskBroken = false;
  isAlarmBroken = false;
  diskMs = 3;
  /** The next reports to the keys database, in order. Later ones are perfect. */
  reports: Wire[] = [];
  retryAtMs = 0;
  /** How many reports were sent, and the number of the latest that the database has. */
  readonly #reports = { sent: 0, latest: 0 };
  readonly #vars: object;
  readonly keys = new UsageDatabase((transact) => this.#transact(transact));
  #disk: unknown = undefined;
  #alarmMs: number | null = null;
  #alarm: ReturnType<typeof setTimeout> | undefined;
  #object!: RateLimiter;

  constructor(policy: QuotaPolicy, behindMs: readonly number[], vars: object = {}) {
    this.newest = policy;
    this.#vars = { ...vars, LIMITER_TIMEOUT_MS: TIMEOUT_MS };
    const config = parseConfig(this.#vars);
    this.bans = config.bans;
    this.isolates = behindMs.map((ms) => startIsolate(config, policy, ms));
    this.witness = new Witness(this.bans, policy);
    vi.spyOn(console, "warn").mockImplementation((line: string) => this.witness.logs(line));
    this.startObject();
  }

  get stored(): LimiterState | null {
    return readState(this.#disk).limiter;
  }

  /** Changes the key. An isolate uses the new version after a call of `learn`. */
  change(changes: Partial<QuotaPolicy>): void {
    const { revision, resets } = this.newest;
    this.newest = { ...this.newest, ...changes, revision: revision + 1 };
    this.witness.policies.push(this.newest);
    const isReset = this.newest.resets > resets;
    if (isReset) this.witness.resets.push({ resets: this.newest.resets, atMs: Date.now() });
    this.keys.change(isReset ? "reset" : "update", this.newest.resets);
  }

  learn(...indexes: readonly number[]): void {
    for (const index of indexes) this.isolates[index]!.policy = this.newest;
  }

  async send(index: number, cancels = false): Promise<Verdict> {
    const isolate = this.isolates[index]!;
    const arrival = this.witness.arrival(isolate);
    this.witness.requests += 1;
    const nth = this.verdicts.push(null) - 1;
    const admit = (...call: Call) => this.#attempt(isolate, call);
    const request = { cancels, ...requestTo({ admit }) };
    const verdict = await isolate.limiter.admit({ keyId: KEY_ID, ...isolate.policy }, request);
    this.verdicts[nth] = verdict;
    const { retryAtMs = null, nowMs = 0 } = verdict.decision ?? {};
    if (retryAtMs !== null) this.retryAtMs = Date.now() + retryAtMs - nowMs;
    this.witness.responds(isolate, arrival, verdict, cancels);
    return verdict;
  }

  async look(index: number): Promise<Quota | null> {
    const isolate = this.isolates[index]!;
    const peek = (policy: QuotaPolicy) => this.#peek(isolate, policy);
    const arrival = this.witness.arrival(isolate);
    const key = { keyId: KEY_ID, ...isolate.policy };
    const quota = await isolate.limiter.look(key, requestTo({ peek }));
    this.witness.looks(isolate, arrival, quota);
    return quota;
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

  async #attempt(isolate: Isolate, call: Call): Promise<Answer> {
    const nonce = call[2];
    const { calls } = isolate;
    const end = (hasFailed: boolean) => {
      clearTimeout(calls.get(nonce));
      if (!calls.delete(nonce)) return;
      isolate.isFailing = hasFailed;
      if (hasFailed) isolate.failedMs = Date.now();
    };
    if (!calls.has(nonce)) calls.set(nonce, setTimeout(end, TIMEOUT_MS, true));
    const attempts = this.witness.calls(isolate, call, Date.now());
    const wire = nextOf(this.wires);
    try {
      const answer = await this.#carry(wire, isolate, (object) => {
        this.witness.arrives(call, Date.now());
        const leaving = object.admit(...call);
        const leave = (decisions: Answer) => {
          if (this.#object === object) this.witness.leaves(nonce, decisions, this.stored);
        };
        leaving.then(leave, () => undefined);
        if (wire.isKilled) this.startObject();
        return leaving;
      });
      this.witness.receives(isolate, call, answer);
      end(false);
      return answer;
    } catch (error) {
      const { retryable, overloaded } = error as NonNullable<Wire["error"]>;
      if (!retryable || overloaded || attempts === 3) end(true);
      throw error;
    }
  }

  async #peek(isolate: Isolate, policy: QuotaPolicy): Promise<Quota> {
    this.witness.peeks(isolate, Date.now());
    const wire = nextOf(this.lookWires);
    isolate.isBlind ||= wire.backMs >= TIMEOUT_MS;
    try {
      const quota = await this.#carry(wire, isolate, (object) => object.peek(policy));
      isolate.isAlone = false;
      return quota;
    } catch (error) {
      isolate.isBlind = true;
      throw error;
    }
  }

  /** Takes a question to the object and its answer back, or fails. */
  async #carry<T extends Answer | Quota>(
    wire: Wire,
    { behindMs }: Isolate,
    ask: (object: RateLimiter) => T | Promise<T>,
  ): Promise<T> {
    await pause(wire.outMs);
    if (wire.before === "call") throw failure(wire);
    const object = this.#object;
    const answering = ask(object);
    if (wire.before === "write") throw failure(wire);
    const answer = asOf(await answering, behindMs);
    if (this.#object !== object) throw failure({ error: LOST });
    await pause(wire.backMs);
    if (wire.error !== undefined) throw failure(wire);
    return answer;
  }

  /** Starts the Durable Object from what is on disk. The one before is dead. */
  startObject(): void {
    let row = this.#disk;
    this.witness.starts(this.stored, readState(row).cancelledMs);
    const storage = {
      kv: {
        get: () => row,
        put: (_: string, value: unknown) => this.rows.push((row = structuredClone(value))),
      },
      sync: async () => {
        const writing = row;
        const isBroken = this.isDiskBroken;
        await pause(this.diskMs);
        if (this.#object !== object) throw failure({ error: LOST });
        if (isBroken) throw new Error("disk");
        this.#disk = writing;
      },
      getAlarm: async () => this.#alarmMs,
      setAlarm: async (ms: number) => {
        if (this.isAlarmBroken) throw new Error("alarm");
        this.setAlarm(ms);
      },
      deleteAll: async () => {
        this.#disk = row = undefined;
        this.witness.deletes();
      },
    };
    const ctx = {
      // An object that is opened by its id has no name, but a row that says it.
      id: { name: row === undefined ? `key:${KEY_ID}` : undefined },
      storage,
      blockConcurrencyWhile: (run: () => Promise<void>) => run(),
      waitUntil,
    };
    const object = new RateLimiter(ctx as never, { ...this.#vars, KEYS: this.keys.d1 } as never);
    this.#object = object;
  }

  /** The platform repeats an alarm that fails, after longer and longer pauses. */
  setAlarm(ms: number, pauseMs = 2_000): void {
    this.#alarmMs = ms;
    clearTimeout(this.#alarm);
    this.#alarm = setTimeout(() => {
      this.#alarmMs = null;
      void this.#object.alarm().catch(() => this.setAlarm(Date.now() + pauseMs, 2 * pauseMs));
    }, ms - Date.now());
  }

  async #transact(transact: () => void): Promise<void> {
    const { outMs, backMs, error, before } = this.reports.shift() ?? PERFECT;
    const nth = (this.#reports.sent += 1);
    await pause(outMs);
    if (before === undefined) {
      const { writes } = this.keys;
      const isLate = nth < this.#reports.latest;
      this.#reports.latest = Math.max(nth, this.#reports.latest);
      const read = this.keys.read();
      transact();
      this.witness.reports(read, this.keys.read(), isLate, this.keys.writes - writes);
    }
    await pause(backMs);
    if (error !== undefined) throw new Error("D1_ERROR: Network connection lost.");
  }
}

const waitUntil = (promise: Promise<unknown>) => void promise.catch(() => undefined);

function requestTo(object: object) {
  return { objects: { getByName: () => object } as never, requestId: "simulated", waitUntil };
}

const nextOf = (wires: Wire[]) => (wires.length > 1 ? wires.shift()! : wires[0]!);

const pause = (ms: number) =>
  ms === 0 ? Promise.resolve() : new Promise<void>((resolve) => void setTimeout(resolve, ms));

const failure = ({ error }: Partial<Wire>) => Object.assign(new Error("The call failed."), error);
