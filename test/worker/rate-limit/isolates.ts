import { type Decision, decide, type QuotaPolicy } from "../../../src/worker/limits/decision.ts";
import { Refusal } from "../../../src/worker/rate-limit/refusal.ts";
import { SimulatedLimiter } from "../limits/simulated-limiter.ts";
import { seededRandom } from "../limits/traffic.ts";

/**
 * A simulation of several isolates, each with its own memory, that call one Durable Object. Each
 * request goes to a random isolate.
 */
export class Isolates extends SimulatedLimiter {
  readonly #refusals: (Refusal | undefined)[];
  readonly #random: () => number;
  readonly #idleMs: number;
  #askedMs = 0;

  /** @param idleMs milliseconds without a call after which the Durable Object is evicted. */
  constructor(policy: QuotaPolicy, count: number, { seed = 1, idleMs = Infinity } = {}) {
    super(policy);
    this.#idleMs = idleMs;
    this.#refusals = Array.from({ length: count }, () => undefined);
    this.#random = seededRandom(seed);
  }

  override request(): Decision {
    const isolate = Math.floor(this.#random() * this.#refusals.length);
    const refusal = this.#refusals[isolate];
    const standing = refusal?.standsAt(this.nowMs, this.policy) ? refusal : undefined;
    const repeated = standing?.repeat(this.nowMs);
    if (repeated != null) return repeated;

    if (this.nowMs - this.#askedMs >= this.#idleMs) this.restart();
    this.#askedMs = this.nowMs;
    const { agesMs } = refusal?.takeUnreported(this.nowMs) ?? { agesMs: [] };
    const refusedMs = agesMs.map((ageMs) => this.nowMs - ageMs);
    const { state, decision } = decide(this.state, this.policy, this.bans, this.nowMs, refusedMs);
    this.state = state;
    this.#refusals[isolate] = decision.admitted
      ? undefined
      : new Refusal(decision, this.policy, this.nowMs, this.nowMs);
    return decision;
  }
}
