import QuickLRU from "quick-lru";
import { vi } from "vitest";
import type { BanPolicy } from "../../../../src/worker/limits/bans.ts";
import type { Decision, QuotaPolicy } from "../../../../src/worker/limits/decision.ts";
import { CircuitBreaker } from "../../../../src/worker/circuit-breaker.ts";
import { DurableLimiter } from "../../../../src/worker/rate-limit/durable-limiter.ts";
import { Outage } from "../../../../src/worker/outage.ts";
import { FallbackLimiter } from "../../../../src/worker/rate-limit/fallback-limiter.ts";
import { RequestLimiter } from "../../../../src/worker/rate-limit/request-limiter.ts";
import { RememberingLimiter } from "../../../../src/worker/rate-limit/remembering-limiter.ts";
import { START_MS } from "../../limits/simulated-limiter.ts";
import { ObjectInMemory } from "./object-in-memory.ts";

/**
 * The latency of a call to the Durable Object in milliseconds each way, and the fault of the call.
 */
export interface Wire {
  readonly outMs: number;
  readonly backMs: number;
  readonly fault: "none" | "never arrives" | "answer is lost";
}

/** One request to the limiter and its decision. */
export interface Exchange {
  readonly isolate: number;
  readonly policy: QuotaPolicy;
  readonly sentMs: number;
  /** The decision that the Durable Object would have made when the request was sent. */
  readonly foreseen: Decision;
  /**
   * For each window that ended less than `MAX_LATENCY_MS` before the request was sent: the decision
   * that the Durable Object would have made just before the end of the window.
   */
  readonly foreseenBefore: readonly Decision[];
  /**
   * The revision and the number of resets that the Durable Object knew of when the request was
   * sent.
   */
  readonly known: { readonly revision: number; readonly resets: number };
  /** The part of the limiter that made the decision. */
  by: "object" | "memory" | "fallback";
  /** The number of restarts of the isolate before this request. */
  readonly life: number;
  /** Time of the decision in Unix milliseconds; meaningless while `answer` is `null`. */
  answeredMs: number;
  answer: Decision | null;
}

/** A decision of the Durable Object, including decisions whose response was lost. */
export interface Decided {
  readonly policy: QuotaPolicy;
  readonly atMs: number;
  readonly admitted: boolean;
  readonly banned: boolean;
}

interface Isolate {
  readonly skewMs: number;
  /** Creates the limiter of one request. */
  newLimiter: () => RequestLimiter;
  /** The number of restarts. After each restart, the isolate has a new fallback limiter. */
  life: number;
  policy: QuotaPolicy;
}

interface Event {
  readonly atMs: number;
  readonly happen: () => void;
}

/** The longest latency of a call in one direction. */
export const MAX_LATENCY_MS = 300;

/** A request that needs more microtasks than this between two events counts as hanging. */
const MAX_MICROTASKS = 1_000;

/**
 * A simulation of one key's limiter as deployed: the Durable Object, and several isolates that each
 * have their own clock and limiter. Calls take time and may fail. The test must use fake timers for
 * `Date`.
 */
export class World {
  nowMs = START_MS;
  readonly object: ObjectInMemory;
  readonly isolates: Isolate[];
  readonly exchanges: Exchange[] = [];
  readonly decided: Decided[] = [];
  /** The number of refusals from memory that isolates reported to the Durable Object. */
  reportedRefusals = 0;
  newest: QuotaPolicy;
  readonly #bans: BanPolicy;
  #events: Event[] = [];
  /** The request that an isolate is currently handling. */
  #active: { exchange: Exchange; wire: Wire } | null = null;

  constructor(policy: QuotaPolicy, bans: BanPolicy, skewsMs: readonly number[]) {
    this.newest = policy;
    this.#bans = bans;
    this.object = new ObjectInMemory(bans);
    this.isolates = skewsMs.map((skewMs) => ({
      skewMs,
      policy,
      life: 0,
      newLimiter: this.#start(),
    }));
  }

  /** Empties the memory of an isolate, as if a new isolate replaced it. */
  restart(index: number): void {
    const isolate = this.isolates[index]!;
    isolate.newLimiter = this.#start();
    isolate.life += 1;
  }

  /** Changes the key's policy. An isolate uses the new policy after a call of `learn`. */
  change(changes: Partial<QuotaPolicy>): void {
    this.newest = { ...this.newest, ...changes, revision: this.newest.revision + 1 };
  }

  learn(index: number): void {
    this.isolates[index]!.policy = this.newest;
  }

  /** Sends a request now. Calls `onAnswer` when the decision has arrived. */
  async send(
    index: number,
    wire: Wire,
    onAnswer: (exchange: Exchange) => void = () => undefined,
  ): Promise<void> {
    const { newLimiter, policy, life } = this.isolates[index]!;
    const limiter = newLimiter();
    const exchange: Exchange = {
      isolate: index,
      policy,
      sentMs: this.nowMs,
      foreseen: this.object.foresee(policy, this.nowMs),
      foreseenBefore: this.object.foreseeBefore(policy, this.nowMs, MAX_LATENCY_MS),
      known: {
        revision: this.object.limiter?.revision ?? 0,
        resets: this.object.limiter?.resets ?? 0,
      },
      by: "memory",
      life,
      answeredMs: this.nowMs,
      answer: null,
    };
    this.exchanges.push(exchange);
    await this.#work(exchange, wire, () => {
      void limiter.admit({ name: "key:simulated", ...policy }).then((answer) => {
        exchange.answer = answer;
        if (limiter.usedFallback) exchange.by = "fallback";
        exchange.answeredMs = this.nowMs;
        this.#active = null;
        onAnswer(exchange);
      });
    });
  }

  /** Runs all events that are due until `untilMs`. */
  async advanceTo(untilMs: number): Promise<void> {
    for (;;) {
      const next = this.#events.reduce<Event | null>(
        (first, event) => (first === null || event.atMs < first.atMs ? event : first),
        null,
      );
      if (next === null || next.atMs > untilMs) break;
      this.#events = this.#events.filter((event) => event !== next);
      this.nowMs = next.atMs;
      next.happen();
      await this.#settle();
    }
    this.nowMs = Math.max(this.nowMs, untilMs);
  }

  /** Runs events until all calls have ended. */
  async drain(): Promise<void> {
    while (this.#events.length > 0) {
      await this.advanceTo(Math.min(...this.#events.map(({ atMs }) => atMs)));
    }
  }

  at(atMs: number, happen: () => void): void {
    this.#events.push({ atMs, happen });
  }

  async #work(exchange: Exchange, wire: Wire, begin: () => void): Promise<void> {
    this.#active = { exchange, wire };
    vi.setSystemTime(this.nowMs + this.isolates[exchange.isolate]!.skewMs);
    begin();
    await this.#settle();
  }

  async #settle(): Promise<void> {
    for (let n = 0; this.#active !== null; n++) {
      if (n > MAX_MICROTASKS) throw new Error("A request hangs.");
      await Promise.resolve();
    }
  }

  /**
   * Starts an isolate with an empty memory. Returns a function that creates the limiter of one
   * request.
   */
  #start(): () => RequestLimiter {
    const objects = {
      getByName: () => ({
        admit: (policy: QuotaPolicy, ages: readonly number[], refused: number, nonce: string) =>
          this.#call(policy, ages, refused, nonce),
      }),
    } as unknown as Cloudflare.Env["RATE_LIMITER"];
    const breaker = new CircuitBreaker({ size: 10, probeMs: 30_000 });
    const durable = new DurableLimiter(objects, 30_000, breaker);
    const remembering = new RememberingLimiter(durable, new QuickLRU({ maxSize: 10 }));
    const fallback = {
      limiter: new FallbackLimiter(this.#bans, 10),
      outage: new Outage({ began: "insurance_limiter_on", ended: "insurance_limiter_off" }),
      overload: new Outage({ began: "limiter_overloaded", ended: "limiter_not_overloaded" }),
    };
    return () => new RequestLimiter(remembering, fallback, "history");
  }

  #call(
    policy: QuotaPolicy,
    ages: readonly number[],
    refused: number,
    nonce: string,
  ): Promise<Decision> {
    const { exchange, wire } = this.#active!;
    this.#active = null;
    return new Promise((resolve, reject) => {
      this.at(this.nowMs + wire.outMs, () => {
        if (wire.fault === "never arrives") return this.#answer(exchange, wire, reject, "fallback");
        const request = {
          policy,
          nonce,
          refusedElsewhere: refused,
          refusedElsewhereMs: ages.map((ageMs) => this.nowMs - ageMs),
        };
        const { decision, consequences } = this.object.admit(request, this.nowMs);
        const { admitted, banned } = decision;
        this.decided.push({ policy, atMs: this.nowMs, admitted, banned });
        this.reportedRefusals += consequences?.refusedElsewhere ?? 0;
        if (wire.fault === "answer is lost") {
          return this.#answer(exchange, wire, reject, "fallback");
        }
        this.#answer(exchange, wire, () => resolve(decision), "object");
      });
    });
  }

  #answer(
    exchange: Exchange,
    wire: Wire,
    settle: (error: Error) => void,
    by: Exchange["by"],
  ): void {
    this.at(this.nowMs + wire.backMs, () => {
      exchange.by = by;
      this.#active = { exchange, wire };
      vi.setSystemTime(this.nowMs + this.isolates[exchange.isolate]!.skewMs);
      settle(new Error("Network connection lost."));
    });
  }
}
