import type { Decision } from "../../../rate-limit/decision.ts";
import type { Assumptions } from "../assumptions.ts";
import { type Behaviour, waitAfter } from "./behaviour.ts";
import type { KeyLimiter, LimiterCounts } from "./key-limiter.ts";
import type { KeyLookUps } from "./key-look-ups.ts";
import type { Random } from "./random.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Simulated days begin at midnight UTC. */
const MIDNIGHT_MS = Date.UTC(2027, 0, 4);

/** What an active key did on one simulated day. */
export interface KeyDay extends Readonly<LimiterCounts> {
  readonly cancellations: number;
  /** Lists by a client that sends `If-None-Match`, and the time before each since the last one. */
  readonly conditionalGapsMs: readonly number[];
  readonly keyLookUps: number;
  /** Hours in which the key was used, each of which ends with a report. */
  readonly reports: number;
  /** Requests admitted in each hour of the day. */
  readonly admittedByHour: readonly number[];
}

/** What one client is like. */
export interface ClientTraits {
  readonly limiter: KeyLimiter;
  readonly lookUps: KeyLookUps;
  readonly behaviour: Behaviour;
  /** Between two requests of a session, on average. */
  readonly pauseMs: number;
  readonly isConditional: boolean;
  readonly random: Random;
}

/** A client that does one thing after the other. Times in milliseconds since midnight. */
export class ClientDay {
  readonly #assumptions: Assumptions;
  readonly #traits: ClientTraits;
  readonly #conditionalGapsMs: number[] = [];
  readonly #admittedByHour = Array.from({ length: 24 }, () => 0);
  #nowMs = 0;
  #listedMs = -DAY_MS;
  #reportDueMs = 0;
  #reports = 0;
  #cancellations = 0;

  constructor(assumptions: Assumptions, traits: ClientTraits) {
    this.#assumptions = assumptions;
    this.#traits = traits;
  }

  /** Begins so many requests at `startMs`, or when the work before them is done. */
  work(startMs: number, requests: number): void {
    this.#nowMs = Math.max(this.#nowMs, startMs);
    for (let sent = 0; sent < requests && this.#nowMs < DAY_MS; sent += 1) {
      if (!this.#sendUntilAdmitted()) return;
      this.#nowMs += this.#traits.random.exponential(this.#traits.pauseMs);
    }
  }

  day(): KeyDay {
    const { limiter, lookUps } = this.#traits;
    return {
      ...limiter.counts,
      cancellations: this.#cancellations,
      conditionalGapsMs: this.#conditionalGapsMs,
      keyLookUps: lookUps.count,
      reports: this.#reports,
      admittedByHour: this.#admittedByHour,
    };
  }

  /** @returns whether the request was admitted before the client gave up or the day was over. */
  #sendUntilAdmitted(): boolean {
    const { limiter, lookUps, behaviour } = this.#traits;
    const sentMs = this.#nowMs;
    for (let refusals = 1; this.#nowMs < DAY_MS; refusals += 1) {
      lookUps.request(this.#nowMs);
      const decision = limiter.request(Math.floor(MIDNIGHT_MS + this.#nowMs));
      if (decision.admitted) {
        this.#countAdmission();
        return true;
      }
      const waitedMs = this.#nowMs - sentMs;
      const waitMs = waitAfter(behaviour, { decision, refusals, waitedMs }, this.#assumptions);
      if (waitMs === null) return false;
      if (behaviour === "hammers" && decision.banned)
        this.#hammerThroughBan(decision, sentMs, waitMs);
      this.#nowMs += waitMs;
    }
    return false;
  }

  /** Takes in one step what would be thousands, each answered by the isolate from memory. */
  #hammerThroughBan(decision: Decision, sentMs: number, everyMs: number): void {
    const banEndMs = (decision.standsUntilMs ?? 0) - MIDNIGHT_MS;
    const endMs = Math.min(banEndMs, DAY_MS, sentMs + this.#assumptions.hammer.seconds * 1_000);
    const times = Math.max(0, Math.floor((endMs - this.#nowMs) / everyMs) - 1);
    if (times === 0) return;
    this.#traits.limiter.repeat(decision, times);
    this.#traits.lookUps.requests(this.#nowMs + everyMs, this.#nowMs + times * everyMs);
    this.#nowMs += times * everyMs;
  }

  #countAdmission(): void {
    const { random, isConditional } = this.#traits;
    const hour = Math.floor(this.#nowMs / HOUR_MS);
    this.#admittedByHour[hour] = (this.#admittedByHour[hour] ?? 0) + 1;
    if (this.#nowMs >= this.#reportDueMs) {
      this.#reports += 1;
      this.#reportDueMs = this.#nowMs + HOUR_MS;
    }
    if (random.chance(this.#assumptions.cancelShare)) {
      this.#cancellations += 1;
    } else if (isConditional) {
      this.#conditionalGapsMs.push(this.#nowMs - this.#listedMs);
      this.#listedMs = this.#nowMs;
    }
  }
}
