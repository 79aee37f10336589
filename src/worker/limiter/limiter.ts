import QuickLRU from "quick-lru";
import { CircuitBreaker } from "../circuit-breaker.ts";
import { type Config, REMEMBERED_KEYS } from "../../rules/config.ts";
import { BatchedQuery } from "../db/batched-query.ts";
import { pause } from "../deadline.ts";
import type { Decision } from "../../rules/limits/decision.ts";
import { logEvent } from "../log.ts";
import { Outage } from "../outage.ts";
import { MemoryLimiter } from "./memory-limiter.ts";
import { callObject, isOverloaded, type LimitedKey, type LimiterObjects } from "./object-call.ts";
import { RefusalMemory } from "./refusal-memory.ts";

/**
 * How many calls to one key's Durable Object an isolate may have under way. Further requests share
 * the next call, so a slow Durable Object gets fewer and larger calls.
 */
const MAX_CALLS_UNDER_WAY = 8;

/** The number of keys for which an isolate groups requests into shared calls. */
const MAX_GROUPS = 1_000;

/**
 * A refusal is remembered only if its call took at most this long. What is repeated from memory
 * announces a wait that is too long by up to the call's duration, because the isolate does not know
 * when during the call the object decided.
 */
const MAX_VAGUE_MS = 1_000;

/** How often `recordCancellation` is retried. Cloudflare stops retries 30 s after the response. */
const RECORD_RETRIES = 5;
const RETRY_RECORD_MS = 5_000;

interface LimitedRequest {
  readonly objects: LimiterObjects;
  readonly requestId: string;
  /** Keeps the request alive until the promise settles: other requests may share its call. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/** The part of the limiter that decided; `nobody` if the key's Durable Object is overloaded. */
export type DecidedBy = "memory" | "object" | "fallback" | "nobody";

export interface Verdict {
  /** `null` if nobody decided. Then the request is not counted. */
  readonly decision: Decision | null;
  readonly decidedBy: DecidedBy;
}

/** A request that waits for a call to its key's Durable Object. The call sets `decision`. */
interface Waiting {
  readonly key: LimitedKey;
  decision: Decision | null;
}

class NotCalledError extends Error {}

/**
 * The limiter of an isolate. The first of these layers that can decide on a request does so:
 *
 * 1. `RefusalMemory` repeats a refusal until it expires or strikes must be reported. This makes
 *    a flood cheap.
 * 2. The key's Durable Object decides exactly (`callObject`). The requests of a busy key share calls
 *    (`BatchedQuery`). For a second after a failed call, there is no call (`CircuitBreaker`).
 * 3. If there was no call or it failed, `RefusalMemory` repeats the refusal without a report.
 * 4. If the Durable Object is overloaded, nobody decides: the object still counts other requests, so
 *    a second limiter would admit too many.
 * 5. The fallback limiter decides in memory (`MemoryLimiter`), so its counts are approximate.
 */
export class Limiter {
  readonly #timeoutMs: number;
  /** Keyed by the id of the API key, like `#groups`. */
  readonly #refusals = new QuickLRU<string, RefusalMemory>({ maxSize: REMEMBERED_KEYS });
  readonly #groups = new QuickLRU<string, BatchedQuery<Waiting, void>>({ maxSize: MAX_GROUPS });
  readonly #breaker: CircuitBreaker;
  readonly #fallback: MemoryLimiter;
  readonly #outage = new Outage({ began: "fallback_limiter_on", ended: "fallback_limiter_off" });
  readonly #overload = new Outage({ began: "limiter_overloaded", ended: "limiter_not_overloaded" });

  constructor({ bans, limiterTimeoutMs }: Pick<Config, "bans" | "limiterTimeoutMs">) {
    this.#timeoutMs = limiterTimeoutMs;
    this.#breaker = new CircuitBreaker({ size: REMEMBERED_KEYS, probeMs: limiterTimeoutMs });
    this.#fallback = new MemoryLimiter(bans, REMEMBERED_KEYS);
  }

  /** Returns whether a remembered refusal certainly applies to a request now. Counts nothing. */
  isRefusing(key: LimitedKey): boolean {
    return this.#refusals.get(key.keyId)?.decisionAt(Date.now(), key) != null;
  }

  /** Decides on one request. Only an admitted request counts against the limits. */
  async admit(key: LimitedKey, request: LimitedRequest): Promise<Verdict> {
    const refusal = this.#refusals.get(key.keyId)?.repeat(Date.now(), key);
    if (refusal != null) return { decision: refusal, decidedBy: "memory" };
    try {
      const decision = await this.#askObject(key, request);
      this.#outage.answered();
      this.#overload.answered();
      return { decision, decidedBy: "object" };
    } catch (error) {
      return this.#decideAlone(key, request, error);
    }
  }

  /**
   * Records a cancellation in the key's Durable Object, so that the key's next list on any isolate
   * reflects it. If this fails, only this isolate knows of the cancellation until a retry succeeds.
   *
   * @param sequence the list's sequence number after the cancellation.
   */
  async recordCancellation(
    key: LimitedKey,
    sequence: number,
    { objects, requestId, waitUntil }: LimitedRequest,
  ): Promise<void> {
    const record = () =>
      callObject(objects, key, this.#timeoutMs, (object) => object.recordCancellation(sequence));
    try {
      await record();
    } catch (error) {
      logEvent({ event: "cancellation_not_recorded", requestId, keyId: key.keyId, error });
      waitUntil(retryRecord(record));
    }
  }

  async #askObject(key: LimitedKey, { objects, waitUntil }: LimitedRequest): Promise<Decision> {
    const waiting: Waiting = { key, decision: null };
    const group = this.#groups.get(key.keyId) ?? this.#newGroup(key.keyId);
    await group.read(waiting, (all) => this.#call(objects, all), waitUntil);
    if (waiting.decision === null) throw new Error("The Durable Object did not decide.");
    return waiting.decision;
  }

  #newGroup(keyId: string): BatchedQuery<Waiting, void> {
    const options = { concurrency: MAX_CALLS_UNDER_WAY, timeoutMs: this.#timeoutMs };
    const group = new BatchedQuery<Waiting, void>(options);
    this.#groups.set(keyId, group);
    return group;
  }

  /** Calls the Durable Object once for all these requests of a key, and also reports refusals. */
  async #call(objects: LimiterObjects, all: readonly Waiting[]): Promise<void> {
    // The isolate may have read a new revision of the key between these requests.
    const key = all.map((waiting) => waiting.key).reduce(newest);
    const { keyId, limits, revision, resets } = key;
    const askedMs = Date.now();
    if (!this.#breaker.allows(keyId, askedMs)) {
      throw new NotCalledError(
        "The Durable Object was not called, because an earlier call has just failed.",
      );
    }
    const { refusals = 0, wait = null } = this.#refusals.get(keyId)?.takeReport(askedMs) ?? {};
    try {
      // All attempts have the same nonce, so that the Durable Object counts the requests once.
      const nonce = crypto.randomUUID();
      const policy = { limits, revision, resets };
      const decisions = await callObject(objects, key, this.#timeoutMs, (object) =>
        object.admit(policy, refusals, nonce, { requests: all.length, wait }),
      );
      this.#breaker.succeeded(keyId);
      all.forEach((waiting, index) => (waiting.decision = decisions[index] ?? null));
      this.#learn(key, decisions.at(-1), askedMs);
    } catch (error) {
      if (isOverloaded(error)) this.#breaker.succeeded(keyId);
      else this.#breaker.failed(keyId, Date.now());
      if (refusals > 0) logEvent({ event: "refusals_unreported", keyId, error });
      throw error;
    }
  }

  #learn(key: LimitedKey, decision: Decision | undefined, askedMs: number): void {
    const memory = this.#refusals.get(key.keyId) ?? new RefusalMemory();
    const answeredMs = Date.now();
    const isVague = answeredMs - askedMs > MAX_VAGUE_MS;
    if (decision === undefined || decision.admitted || isVague) return memory.learn(null);
    // A clock that was set back during the call must not prolong the refusal.
    memory.learn({ decision, policy: key, askedMs: Math.min(askedMs, answeredMs), answeredMs });
    this.#refusals.set(key.keyId, memory);
  }

  #decideAlone(key: LimitedKey, { requestId }: LimitedRequest, error: unknown): Verdict {
    const { keyId } = key;
    const nowMs = Date.now();
    const memory = this.#refusals.get(keyId);
    // Count the refusal only if no call was sent. Otherwise the object may have counted it already.
    const refusal =
      error instanceof NotCalledError
        ? memory?.repeatUnreported(nowMs, key)
        : memory?.decisionAt(nowMs, key);
    if (refusal != null) return { decision: refusal, decidedBy: "memory" };
    const failing = isOverloaded(error) ? this.#overload : this.#outage;
    failing.failed({ requestId, keyId, error });
    if (isOverloaded(error)) return { decision: null, decidedBy: "nobody" };
    return { decision: this.#fallback.admit(keyId, key), decidedBy: "fallback" };
  }
}

async function retryRecord(record: () => Promise<void>): Promise<void> {
  for (let attempt = 0; attempt < RECORD_RETRIES; attempt += 1) {
    await pause(RETRY_RECORD_MS);
    try {
      return await record();
    } catch {
      // The caller has logged the failure of the first attempt.
    }
  }
}

function newest(one: LimitedKey, other: LimitedKey): LimitedKey {
  return other.revision > one.revision ? other : one;
}
