import * as z from "zod/mini";
import { type DatabaseQueries, DatabaseUnavailableError } from "../db/availability.ts";
import type { Decision } from "../../rules/limits/decision.ts";
import { logEvent } from "../log.ts";
import { DAY_MS, dayOf, dayText } from "../../rules/days.ts";
import { countUsage, type FurtherCounts, type Usage } from "./day-usage.ts";

export const unreportedBansSchema = z.array(
  z.object({
    beganMs: z.number(),
    untilMs: z.number(),
    number: z.int(),
    /** The number of the key's resets that the limiter knew of when the ban began. */
    resets: z.int(),
  }),
);

/** The bans of a key that may not be in the database yet. Times in Unix milliseconds. */
export type UnreportedBans = Readonly<z.output<typeof unreportedBansSchema>>;

// Inserts a ban. If the key has more resets than the limiter knew of when the ban began, a reset
// has lifted the ban, so `lifted_at` is set.
const INSERT_BAN = `
  INSERT INTO key_bans (key_id, began_at, ends_at, number, lifted_at)
  VALUES (?1, ?2, ?3, ?4, max(?2, (
    SELECT max(key_changes.at) FROM api_keys JOIN key_changes ON key_changes.key_id = api_keys.id
    WHERE api_keys.id = ?1 AND api_keys.resets > ?5 AND key_changes.action = 'reset')))
  ON CONFLICT DO NOTHING`;

/** The columns that a report never lowers: a limiter may have lost counts that it reported. */
const TOTALS = ["admitted", "refused", "strikes", "bans", "peak_minute", "peak_day"];

// If nothing has changed, the WHERE clause skips the update, so the report writes no row.
const REPORT_USAGE = `
  INSERT INTO key_usage (key_id, day, reported_at, per_minute, per_day, ${TOTALS.join(", ")})
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
  ON CONFLICT (day, key_id) DO UPDATE SET
    reported_at = excluded.reported_at, per_minute = excluded.per_minute, per_day = excluded.per_day,
    ${TOTALS.map((total) => `${total} = max(${total}, excluded.${total})`).join(", ")}
  WHERE per_minute <> excluded.per_minute OR per_day <> excluded.per_day
    OR ${TOTALS.map((total) => `excluded.${total} > ${total}`).join(" OR ")}`;

/**
 * The usage and the new bans of one API key, which its Durable Object stores and reports. Refusals
 * and strikes alone cause no write, so a restart may lose their counts.
 */
export class KeyReports {
  readonly #keyId: string;
  readonly #queries: DatabaseQueries;
  #usage: Usage;
  #bans: UnreportedBans;
  #storedUsage: Usage;

  constructor(keyId: string, usage: Usage, bans: UnreportedBans, queries: DatabaseQueries) {
    this.#keyId = keyId;
    this.#queries = queries;
    this.#usage = this.#storedUsage = usage;
    this.#bans = bans;
  }

  /** The Unix time in milliseconds when the last counted day ends; 0 if no day is counted. */
  get endMs(): number {
    return Math.max(0, ...this.#usage.map(({ day }) => (day + 1) * DAY_MS));
  }

  /** False if the usage may have changed since the last call of `toStored`. */
  get isStored(): boolean {
    return this.#usage === this.#storedUsage;
  }

  get unreportedBans(): number {
    return this.#bans.length;
  }

  count(decision: Decision, further: FurtherCounts): void {
    this.#usage = countUsage(this.#usage, decision, further);
  }

  addBan(ban: UnreportedBans[number]): void {
    this.#bans = [...this.#bans, ban];
  }

  /** Returns the state to store, so that a restart loses no ban. Marks the usage as stored. */
  toStored(): { readonly usage: Usage; readonly unreportedBans?: UnreportedBans } {
    this.#storedUsage = this.#usage;
    return { usage: this.#usage, ...(this.#bans.length > 0 && { unreportedBans: this.#bans }) };
  }

  /**
   * Writes the usage and the new bans to the database, in one transaction. Then forgets the bans,
   * and the days that are over. A repeated or delayed report neither doubles nor lowers a count.
   *
   * @returns whether the report succeeded. If not, the next report includes everything again.
   */
  async report(database: D1Database): Promise<boolean> {
    const usage = this.#usage;
    const bans = this.#bans;
    if (usage.length + bans.length === 0) return true;
    const nowMs = Date.now();
    const ban = database.prepare(INSERT_BAN);
    const day = database.prepare(REPORT_USAGE);
    const statements = [
      ...bans.map(({ beganMs, untilMs, number, resets }) =>
        ban.bind(this.#keyId, beganMs, untilMs, number, resets),
      ),
      ...usage.map((counted) => day.bind(this.#keyId, ...usageColumns(counted, nowMs))),
    ];
    try {
      await this.#queries.run(() => database.batch(statements));
    } catch (error) {
      const keyId = this.#keyId;
      if (error instanceof DatabaseUnavailableError) {
        this.#queries.outage.failed({ keyId, error: error.cause });
      } else logEvent({ event: "report_failed", keyId, error });
      return false;
    }
    this.#bans = this.#bans.filter((unreported) => !bans.includes(unreported));
    const today = dayOf(nowMs);
    this.#usage = this.#usage.filter(({ day: counted }) => counted >= today);
    return true;
  }
}

function usageColumns({ day, limits, ...totals }: Usage[number], nowMs: number): unknown[] {
  const { admitted, refused, strikes, bans, peakMinute, peakDay } = totals;
  const counted = [admitted, refused, strikes, bans, peakMinute, peakDay];
  return [dayText(day), nowMs, limits.perMinute, limits.perDay, ...counted];
}
