import QuickLRU from "quick-lru";
import { CircuitBreaker } from "../circuit-breaker.ts";
import { type Config, REMEMBERED_KEYS } from "../../rules/config.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { type Decision, type Quota, stateWith } from "../../rules/limits/decision.ts";
import { logEvent } from "../log.ts";
import { Outage } from "../outage.ts";
import { MemoryLimiter } from "./memory-limiter.ts";
import {
  callObject,
  isOverloaded,
  type LimitedKey,
  type LimiterObjects,
  newest,
  type ObjectDecision,
} from "./object-call.ts";
import { QuotaMemory } from "./quota-memory.ts";
import { RefusalMemory } from "./refusal-memory.ts";

/**
 * How many calls to one key's Durable Object an isolate may have under way. Further requests share
 * the next call, so a slow Durable Object gets fewer and larger calls.
 */
const MAX_CALLS_UNDER_WAY = 8;

/** The number of keys whose requests share calls, and whose quotas an isolate remembers. */
const MAX_GROUPS = 1_000;

/**
 * A refusal is remembered only if its call took at most this long. What is repeated from memory
 * announces a wait that is too long by up to the call's duration, because the isolate does not know
 * when during the call the object decided.
 */
const MAX_VAGUE_MS = 1_000;

interface LimitedRequest {
  /** Whether the request may cancel an order. */
  readonly cancels: boolean;
  readonly objects: LimiterObjects;
  readonly requestId: string;
  /** Keeps the request alive until the promise settles: other requests may share its call. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/** The part of the limiter that decided; `nobody` if the key's Durable Object is overloaded. */
export type DecidedBy = "memory" | "object" | "fallback" | "nobody";

export interface Verdict {
  /** `null` if nobody decided. Then the request is not counted. */
  readonly decision: ObjectDecision | null;
  readonly decidedBy: DecidedBy;
}

interface Admission {
  readonly key: LimitedKey;
  readonly cancels: boolean;
}

/** What the requests of one key share. */
interface Group {
  readonly admissions: BatchedCalls<Admission, ObjectDecision>;
  readonly quota: QuotaMemory;
}

class NotCalledError extends Error {}

/**
 * The limiter of an isolate. The first of these layers that can decide on a request does so:
 *
 * 1. `RefusalMemory` repeats a refusal until it expires or strikes must be reported.
 * 2. The key's Durable Object decides exactly (`callObject`). The requests of a busy key share calls
 *    (`BatchedCalls`). For a second after a failed call, there is no call (`CircuitBreaker`).
 * 3. If there was no call or it failed, `RefusalMemory` repeats the refusal without a report.
 * 4. If the Durable Object is overloaded, nobody decides: the object still counts other requests, so
 *    a second limiter would admit too many.
 * 5. The fallback limiter decides in memory (`MemoryLimiter`), from the object's last decision on. Its
 *    counts are approximate.
 */
export class Limiter {
  readonly #timeoutMs: number;
  /** Keyed by the id of the API key, like `#groups`. */
  readonly #refusals = new QuickLRU<string, RefusalMemory>({ maxSize: REMEMBERED_KEYS });
  readonly #groups = new QuickLRU<string, Group>({ maxSize: MAX_GROUPS });
  /** The keys that may have cancelled an order of which their Durable Objects have not heard. */
  readonly #cancelling = new QuickLRU<string, true>({ maxSize: REMEMBERED_KEYS });
  readonly #breaker: CircuitBreaker;
  readonly #fallback: MemoryLimiter;
  readonly #outage = new Outage({ began: "fallback_limiter_on", ended: "fallback_limiter_off" });
  readonly #overload = new Outage({ began: "limiter_overloaded", ended: "limiter_not_overloaded" });
  readonly #blindness = new Outage({ began: "quota_unavailable", ended: "quota_available" });

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
      const { cancels, objects, waitUntil } = request;
      const call = (all: readonly Admission[]) => this.#call(objects, all);
      const { admissions } = this.#group(key.keyId);
      const decision = await admissions.valueOf({ key, cancels }, call, waitUntil);
      this.#outage.answered();
      this.#overload.answered();
      return { decision, decidedBy: "object" };
    } catch (error) {
      return this.#decideAlone(key, request, error);
    }
  }

  /** Returns what the next request would meet, counting none; `null` if the object is silent. */
  async look(key: LimitedKey, request: Omit<LimitedRequest, "cancels">): Promise<Quota | null> {
    const { objects, requestId, waitUntil } = request;
    const { keyId } = key;
    const refusal = this.#refusals.get(keyId)?.decisionAt(Date.now(), key);
    if (refusal != null) return refusal;
    const ask = (asked: LimitedKey): Promise<Quota> =>
      callObject(objects, key, this.#timeoutMs, (object) => object.peek(asked), 1);
    try {
      const quota = await this.#group(keyId).quota.look(key, ask, this.#timeoutMs, waitUntil);
      this.#blindness.answered();
      return quota;
    } catch (error) {
      this.#blindness.failed({ requestId, keyId, error });
      return null;
    }
  }

  #group(keyId: string): Group {
    const known = this.#groups.get(keyId);
    if (known !== undefined) return known;
    const options = { concurrency: MAX_CALLS_UNDER_WAY, timeoutMs: this.#timeoutMs };
    const group: Group = { admissions: new BatchedCalls(options), quota: new QuotaMemory() };
    this.#groups.set(keyId, group);
    return group;
  }

  /** Calls the Durable Object once for all these requests of a key, and also reports refusals. */
  async #call(
    objects: LimiterObjects,
    all: readonly Admission[],
  ): Promise<readonly ObjectDecision[]> {
    // The isolate may have read a new revision of the key between these requests.
    const key = all.map((admission) => admission.key).reduce(newest);
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
      const cancels = this.#cancelling.has(keyId) || all.some((admission) => admission.cancels);
      const details = { requests: all.length, wait, cancels };
      const decisions = await callObject(objects, key, this.#timeoutMs, (object) =>
        object.admit(policy, refusals, nonce, details),
      );
      this.#breaker.succeeded(keyId);
      if (cancels) this.#cancelling.delete(keyId);
      this.#learn(key, decisions.at(-1), askedMs);
      return decisions;
    } catch (error) {
      if (isOverloaded(error)) this.#breaker.succeeded(keyId);
      else this.#breaker.failed(keyId, Date.now());
      if (refusals > 0) logEvent({ event: "refusals_unreported", keyId, error });
      throw error;
    }
  }

  #learn(key: LimitedKey, decision: Decision | undefined, askedMs: number): void {
    const { keyId, revision } = key;
    const memory = this.#refusals.get(keyId) ?? new RefusalMemory();
    const answeredMs = Date.now();
    if (decision === undefined) return memory.learn(null);
    this.#group(keyId).quota.hear({ quota: decision, revision, askedMs, answeredMs });
    this.#fallback.learn(keyId, stateWith(decision, key, answeredMs));
    const isVague = answeredMs - askedMs > MAX_VAGUE_MS;
    if (decision.admitted || isVague) return memory.learn(null);
    // A clock that was set back during the call must not prolong the refusal.
    memory.learn({ decision, policy: key, askedMs: Math.min(askedMs, answeredMs), answeredMs });
    this.#refusals.set(keyId, memory);
  }

  #decideAlone(key: LimitedKey, request: LimitedRequest, error: unknown): Verdict {
    const { requestId, cancels } = request;
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
    this.#groups.get(keyId)?.quota.outdate();
    // The next call reports the cancellation.
    if (cancels) this.#cancelling.set(keyId, true);
    return { decision: this.#fallback.admit(keyId, key), decidedBy: "fallback" };
  }
}
