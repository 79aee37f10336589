import { drizzle } from "drizzle-orm/d1";
import { DatabaseQueries } from "../db/availability.ts";
import { logEvent } from "../log.ts";
import type { Decision } from "../limits/decision.ts";
import { type Consequences, countUsage, type Usage, usageEndMs, usageToKeep } from "./day-usage.ts";
import { readUsage } from "./usage-in-object.ts";
import { reportUsage } from "./report-usage.ts";

/** The usage of one API key in the memory of its Durable Object, which stores it beside its record. */
export class KeyUsage {
  /** `null` if it is unknown: then nothing can be reported. */
  readonly keyId: string | null;
  #usage: Usage;
  #stored: Usage;

  /** @param stored what `toStored` has returned to this version or another one, or `undefined`. */
  constructor(keyId: string | null, stored: unknown) {
    this.keyId = keyId;
    const usage = readUsage(stored);
    if (usage === null) logEvent({ event: "limiter_usage_unreadable", keyId });
    this.#usage = this.#stored = usage ?? [];
  }

  /** Unix time in milliseconds until which it is to be kept, once it is reported. */
  get endMs(): number {
    return usageEndMs(this.#usage);
  }

  /** Whether nothing was counted since `toStored` was called. */
  get isStored(): boolean {
    return this.#usage === this.#stored;
  }

  count(decision: Decision, consequences: Consequences): void {
    this.#usage = countUsage(this.#usage, decision, consequences);
  }

  /** What is to be stored now. */
  toStored(): Usage {
    this.#stored = this.#usage;
    return this.#usage;
  }

  /**
   * Reports it to the database, and forgets the days that are over and reported.
   *
   * @returns whether that succeeded; what is not reported stays.
   */
  async report(d1: D1Database, timeoutMs: number): Promise<boolean> {
    const { keyId } = this;
    const usage = this.#usage;
    if (usage.length === 0) return true;
    const now = new Date();
    try {
      if (keyId === null) throw new Error("The usage does not say which key it is of.");
      const database = drizzle(d1);
      await new DatabaseQueries("keys", timeoutMs).run(() =>
        reportUsage(database, keyId, usage, now),
      );
    } catch (error) {
      logEvent({ event: "usage_unreported", keyId, error });
      return false;
    }
    this.#usage = usageToKeep(this.#usage, usage, now.getTime());
    return true;
  }
}
