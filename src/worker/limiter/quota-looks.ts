import QuickLRU from "quick-lru";
import { REMEMBERED_KEYS } from "../../rules/config.ts";
import { type Quota, quotaLater } from "../../rules/limits/decision.ts";
import { CircuitBreaker } from "../circuit-breaker.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { pause, withDeadline } from "../deadline.ts";
import { type LimitedKey, type LimiterObjects, newest, objectOf } from "./object-call.ts";

/** An isolate asks a key's Durable Object for the quota at most this often, in milliseconds. */
const ASK_EVERY_MS = 1_000;

/** A quota that a Durable Object returned. */
interface Heard {
  readonly quota: Quota;
  /** The revision of the key with which the isolate called the Durable Object. */
  readonly revision: number;
  /** Unix times in milliseconds before and after the call, on the isolate's clock. */
  readonly askedMs: number;
  readonly answeredMs: number;
}

interface Looks {
  readonly calls: BatchedCalls<LimitedKey, Quota>;
  /** Unix time in milliseconds of the last call. */
  askedMs: number;
}

/**
 * Looks at the quota of keys without counting a request. Remembers for a second what the Durable
 * Object of a key last returned, be it a decision or a quota, so a thousand looks cost one call. A
 * quota is never older than the last decision that this isolate received.
 */
export class QuotaLooks {
  readonly #timeoutMs: number;
  /** Keyed by the id of the API key, like `#looks`. */
  readonly #heard = new QuickLRU<string, Heard>({ maxSize: REMEMBERED_KEYS });
  readonly #looks = new QuickLRU<string, Looks>({ maxSize: REMEMBERED_KEYS });
  /** Not the breaker of decisions: looks must not change which part of the limiter decides. */
  readonly #breaker: CircuitBreaker;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#breaker = new CircuitBreaker({ size: REMEMBERED_KEYS, probeMs: timeoutMs });
  }

  /** Remembers a quota, unless a newer one of the same Durable Object is remembered. */
  hear(keyId: string, heard: Heard): void {
    const before = this.#heard.get(keyId);
    const isNews =
      before === undefined ||
      !isRecent(before.askedMs, heard.answeredMs) ||
      isAsNew(heard.quota, before.quota);
    if (isNews) this.#heard.set(keyId, heard);
  }

  /** Forgets the quota of a key, because a part other than its Durable Object has decided since. */
  forget(keyId: string): void {
    this.#heard.delete(keyId);
  }

  /** @throws {Error} if the Durable Object must be asked and does not respond. */
  async look(
    key: LimitedKey,
    objects: LimiterObjects,
    waitUntil: (promise: Promise<unknown>) => void,
  ): Promise<Quota> {
    const known = this.#known(key);
    if (known !== null) return known;
    const looks = this.#looks.get(key.keyId) ?? this.#newLooks(key.keyId);
    const ask = async (keys: readonly LimitedKey[]) => {
      const quota = await this.#ask(looks, objects, keys.reduce(newest));
      return keys.map(() => quota);
    };
    const asked = await looks.calls.valueOf(key, ask, waitUntil);
    // This isolate may have received a decision since.
    return this.#known(key) ?? asked;
  }

  #newLooks(keyId: string): Looks {
    const timeoutMs = ASK_EVERY_MS + this.#timeoutMs;
    const calls = new BatchedCalls<LimitedKey, Quota>({ concurrency: 1, timeoutMs });
    const looks = { calls, askedMs: -Infinity };
    this.#looks.set(keyId, looks);
    return looks;
  }

  #known({ keyId, revision }: LimitedKey): Quota | null {
    const heard = this.#heard.get(keyId);
    const nowMs = Date.now();
    if (heard === undefined || heard.revision < revision || !isRecent(heard.askedMs, nowMs)) {
      return null;
    }
    const { quota, answeredMs } = heard;
    // Decisions of an earlier version do not describe the ban.
    if (quota.banned && quota.ban === undefined) return null;
    return quotaLater(quota, quota.nowMs + Math.max(0, nowMs - answeredMs));
  }

  /** Calls the Durable Object, but at most once a second and not within a second after a failure. */
  async #ask(looks: Looks, objects: LimiterObjects, key: LimitedKey): Promise<Quota> {
    const known = this.#known(key);
    if (known !== null) return known;
    const { keyId, limits, revision, resets } = key;
    if (!this.#breaker.allows(keyId, Date.now())) throw new Error("A call has just failed.");
    const early = looks.askedMs + ASK_EVERY_MS - Date.now();
    if (early > 0 && early <= ASK_EVERY_MS) await pause(early);
    const askedMs = (looks.askedMs = Date.now());
    try {
      const call = objectOf(objects, key).peek({ limits, revision, resets });
      const quota: Quota = await withDeadline(call, this.#timeoutMs);
      this.#breaker.succeeded(keyId);
      this.hear(keyId, { quota, revision, askedMs, answeredMs: Date.now() });
      return quota;
    } catch (error) {
      this.#breaker.failed(keyId, Date.now());
      throw error;
    }
  }
}

function isRecent(askedMs: number, nowMs: number): boolean {
  return nowMs >= askedMs && nowMs - askedMs < ASK_EVERY_MS;
}

/** Compares two quotas of one Durable Object. In the same millisecond, counts only increase. */
function isAsNew(one: Quota, other: Quota): boolean {
  if (one.nowMs !== other.nowMs) return one.nowMs > other.nowMs;
  return one.day.remaining <= other.day.remaining;
}
