import { isNewer, type Quota, quotaLater } from "../../rules/limits/decision.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { isWithin, pause } from "../deadline.ts";
import { type LimitedKey, newest } from "./object-call.ts";

/** A key's Durable Object is asked for the quota at most this often, in milliseconds. */
const ASK_EVERY_MS = 1_000;

/** A quota that a key's Durable Object returned. Unix times in milliseconds, by the isolate's clock. */
interface Heard {
  readonly quota: Quota;
  /** The revision of the key with which the isolate called the Durable Object. */
  readonly revision: number;
  readonly askedMs: number;
  readonly answeredMs: number;
}

/**
 * An isolate's memory of a key's quota: what the Durable Object returned last, be it a decision or a
 * quota. It answers looks for a second, so a thousand looks cost one call.
 */
export class QuotaMemory {
  #heard: Heard | null = null;
  /** Whether another part has decided since: the next look asks the Durable Object. */
  #isOutdated = false;
  #calls: BatchedCalls<LimitedKey, Quota> | null = null;
  #askedMs = -Infinity;

  /** Says that another part than the Durable Object has decided. */
  outdate(): void {
    this.#isOutdated = true;
  }

  /** Remembers a quota, unless a newer one is known. */
  hear(heard: Heard): void {
    const before = this.#heard;
    this.#isOutdated = false;
    // Calls that overlap can return in another order than the Durable Object answered them.
    const overlap =
      before !== null &&
      heard.askedMs <= before.answeredMs &&
      // False only if the clock was set back.
      before.askedMs <= heard.answeredMs;
    if (!overlap || !isNewer(before.quota, heard.quota)) this.#heard = heard;
  }

  /** Returns the quota, at most a second old. `ask` calls the Durable Object within `timeoutMs`. */
  async look(
    key: LimitedKey,
    ask: (key: LimitedKey) => Promise<Quota>,
    timeoutMs: number,
    waitUntil: (promise: Promise<unknown>) => void,
  ): Promise<Quota> {
    const known = this.#known(key);
    if (known !== null) return known;
    this.#calls ??= new BatchedCalls({ concurrency: 1, timeoutMs: ASK_EVERY_MS + timeoutMs });
    const askForAll = async (keys: readonly LimitedKey[]) => {
      const wanted = keys.reduce(newest);
      const earlier = this.#known(wanted);
      if (earlier !== null) return keys.map(() => earlier);
      const early = this.#askedMs + ASK_EVERY_MS - Date.now();
      if (early > 0 && early <= ASK_EVERY_MS) await pause(early);
      const askedMs = (this.#askedMs = Date.now());
      const quota = await ask(wanted);
      this.hear({ quota, revision: wanted.revision, askedMs, answeredMs: Date.now() });
      return keys.map(() => quota);
    };
    const asked = await this.#calls.valueOf(key, askForAll, waitUntil);
    return this.#newest(key) ?? asked;
  }

  /** Returns the quota if it is at most a second old. */
  #known(key: LimitedKey): Quota | null {
    const heard = this.#heard;
    if (heard === null || this.#isOutdated) return null;
    return isWithin(ASK_EVERY_MS, heard.askedMs, Date.now()) ? this.#newest(key) : null;
  }

  /** Returns the newest quota as of now; `null` if it is of an earlier version of the key. */
  #newest({ revision }: LimitedKey): Quota | null {
    const heard = this.#heard;
    if (heard === null || heard.revision < revision) return null;
    const sinceMs = Math.max(0, Date.now() - heard.answeredMs);
    return quotaLater(heard.quota, heard.quota.nowMs + sinceMs);
  }
}
