import { and, eq, gt, lt, max, ne, or, type Placeholder, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import * as z from "zod/mini";
import { type DatabaseQueries, DatabaseUnavailableError } from "../db/availability.ts";
import { apiKeys, keyBans, keyChanges, keyUsage } from "../../schema/keys.ts";
import { db, Statement } from "../db/statement.ts";
import type { Decision } from "../../rules/limits/decision.ts";
import { logEvent } from "../log.ts";
import { DAY_MS, dayOf, dayText } from "../../rules/days.ts";
import {
  countUsage,
  FIRST_REPORT_MS,
  type FurtherCounts,
  REPORT_EVERY_MS,
  type Usage,
} from "./day-usage.ts";

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

/**
 * Inserts a ban. If the key has more resets than the limiter knew of when the ban began, a reset has
 * lifted the ban, so `liftedAt` is set.
 */
const INSERT_BAN = Statement.of(() => {
  const [keyId, beganAt] = [sql.placeholder("keyId"), sql.placeholder("beganMs")];
  const lastReset = db
    .select({ at: max(keyChanges.at) })
    .from(apiKeys)
    .innerJoin(keyChanges, eq(keyChanges.keyId, apiKeys.id))
    .where(
      and(
        eq(apiKeys.id, keyId),
        gt(apiKeys.resets, sql.placeholder("resets")),
        eq(keyChanges.action, "reset"),
      ),
    );
  const endsAt = sql`${sql.placeholder("untilMs")}`;
  const liftedAt = sql`max(${beganAt}, ${lastReset})`;
  return db
    .insert(keyBans)
    .values({
      keyId,
      beganAt: sql`${beganAt}`,
      endsAt,
      number: sql.placeholder("number"),
      liftedAt,
    })
    .onConflictDoNothing();
});

/** The columns that a report never lowers: a limiter may have lost counts that it reported. */
const TOTALS = ["admitted", "refused", "strikes", "bans", "peakMinute", "peakDay"] as const;
const LIMITS = ["perMinute", "perDay"] as const;

/** Reports a day of usage. If nothing has changed, `setWhere` skips the update: it writes no row. */
const REPORT_USAGE = Statement.of(() => {
  const values = (names: readonly (typeof TOTALS | typeof LIMITS)[number][]) =>
    Object.fromEntries(names.map((name) => [name, sql.placeholder(name)])) as Record<
      (typeof TOTALS | typeof LIMITS)[number],
      Placeholder
    >;
  const excluded = ({ name }: SQLiteColumn) => sql`excluded.${sql.identifier(name)}`;
  const raised = TOTALS.map((name) => {
    return [name, sql`max(${keyUsage[name]}, ${excluded(keyUsage[name])})`] as const;
  });
  const newest = LIMITS.map((name) => [name, excluded(keyUsage[name])] as const);
  return db
    .insert(keyUsage)
    .values({
      keyId: sql.placeholder("keyId"),
      day: sql.placeholder("day"),
      reportedAt: sql`${sql.placeholder("reportedMs")}`,
      ...values([...TOTALS, ...LIMITS]),
    })
    .onConflictDoUpdate({
      target: [keyUsage.day, keyUsage.keyId],
      set: {
        reportedAt: excluded(keyUsage.reportedAt),
        ...Object.fromEntries([...raised, ...newest]),
      },
      setWhere: sql`${or(
        ...LIMITS.map((name) => ne(keyUsage[name], excluded(keyUsage[name]))),
        ...TOTALS.map((name) => lt(keyUsage[name], excluded(keyUsage[name]))),
      )}`,
    });
});

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
  /** The days that were reported before. Marked in the stored usage with its next write. */
  readonly #reportedDays: Set<number>;

  constructor(keyId: string, usage: Usage, bans: UnreportedBans, queries: DatabaseQueries) {
    this.#keyId = keyId;
    this.#queries = queries;
    this.#usage = this.#storedUsage = usage;
    this.#bans = bans;
    this.#reportedDays = new Set(usage.filter((day) => day.isReported).map(({ day }) => day));
  }

  /** The Unix time in milliseconds when the last counted day ends; 0 if no day is counted. */
  get endMs(): number {
    return Math.max(0, ...this.#usage.map(({ day }) => (day + 1) * DAY_MS));
  }

  /** Within how many milliseconds to report what is counted at `nowMs`. */
  dueMs(nowMs: number): number {
    return this.#reportedDays.has(dayOf(nowMs)) ? REPORT_EVERY_MS : FIRST_REPORT_MS;
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
    const usage = this.#usage.map((counted) => {
      return { ...counted, isReported: this.#reportedDays.has(counted.day) };
    });
    return { usage, ...(this.#bans.length > 0 && { unreportedBans: this.#bans }) };
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
    const keyId = this.#keyId;
    const statements = [
      ...bans.map((ban) => INSERT_BAN.bind(database, { keyId, ...ban })),
      ...usage.map((counted) =>
        REPORT_USAGE.bind(database, {
          ...counted,
          ...counted.limits,
          keyId,
          day: dayText(counted.day),
          reportedMs: nowMs,
        }),
      ),
    ];
    try {
      await this.#queries.run(() => database.batch(statements));
    } catch (error) {
      if (error instanceof DatabaseUnavailableError) {
        this.#queries.outage.failed({ keyId, error: error.cause });
      } else logEvent({ event: "report_failed", keyId, error });
      return false;
    }
    this.#bans = this.#bans.filter((unreported) => !bans.includes(unreported));
    const today = dayOf(nowMs);
    for (const { day } of usage) this.#reportedDays.add(day);
    for (const day of this.#reportedDays) if (day < today) this.#reportedDays.delete(day);
    this.#usage = this.#usage.filter(({ day: counted }) => counted >= today);
    return true;
  }
}
