import { DatabaseQueries } from "../db/availability.ts";
import type { Decision } from "../limits/decision.ts";
import { logEvent } from "../log.ts";
import {
  type Consequences,
  countUsage,
  readUsage,
  type Usage,
  usageEndMs,
  usageToKeep,
} from "./day-usage.ts";
import { reportUsage } from "./report-usage.ts";

/**
 * The usage of one API key in the memory of its Durable Object. The Durable Object stores usage and
 * limiter state in the same row, so usage needs no additional writes. The drawback: refusals and
 * strikes alone cause no write, so a restart of the Durable Object may lose their counts.
 */
export class KeyUsage {
  /** `null` if the Durable Object does not know its key; then the usage cannot be reported. */
  readonly keyId: string | null;
  #usage: Usage;
  #stored: Usage;

  /**
   * @param stored a value that `toStored` of any version of the service returned, or `undefined`.
   */
  constructor(keyId: string | null, stored: unknown) {
    this.keyId = keyId;
    const usage = readUsage(stored);
    if (usage === null) logEvent({ event: "limiter_usage_unreadable", keyId });
    this.#usage = this.#stored = usage ?? [];
  }

  /** Unix time in milliseconds at which the last day in the usage is over. */
  get endMs(): number {
    return usageEndMs(this.#usage);
  }

  /** True if nothing was counted since the last call of `toStored`. */
  get isStored(): boolean {
    return this.#usage === this.#stored;
  }

  count(decision: Decision, consequences: Consequences): void {
    this.#usage = countUsage(this.#usage, decision, consequences);
  }

  /** Returns the usage to store, and marks it as stored. */
  toStored(): Usage {
    this.#stored = this.#usage;
    return this.#usage;
  }

  /**
   * Reports the usage to the database. Then forgets the days that are over and reported.
   *
   * @returns whether the report succeeded. If the report fails, the next report includes all of its
   *   days.
   */
  async report(database: D1Database, timeoutMs: number): Promise<boolean> {
    const { keyId } = this;
    const usage = this.#usage;
    if (usage.length === 0) return true;
    const now = new Date();
    try {
      if (keyId === null) throw new Error("The usage cannot be reported: its key is unknown.");
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
