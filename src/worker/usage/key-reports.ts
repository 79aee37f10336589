import {
  and,
  eq,
  getTableColumns,
  gt,
  isNull,
  lt,
  lte,
  max,
  ne,
  or,
  type Placeholder,
  sql,
} from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import * as z from "zod/mini";
import { apiKeys, keyBans, keyChanges, keyUsage } from "../../schema/keys.ts";
import { DATABASE_TIME } from "../../store/database.ts";
import { type DatabaseQueries, logFailure } from "../db/availability.ts";
import { db, Statement } from "../db/statement.ts";
import type { Decision } from "../../rules/limits/decision.ts";
import { DAY_MS, dayOf, dayText } from "../../rules/days.ts";
import {
  countUsage,
  FIRST_REPORT_MS,
  type FurtherCounts,
  REPORT_EVERY_MS,
  type Usage,
  usageUntil,
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

interface Unreported {
  readonly usage: Usage;
  readonly bans: UnreportedBans;
}

/** Returns a placeholder for each of these names, under the same name. */
function placeholders<Name extends string>(...names: readonly Name[]) {
  const all = names.map((name) => [name, sql.placeholder(name)]);
  return Object.fromEntries(all) as Record<Name, Placeholder>;
}

/** Inserts a ban. A reset that the limiter did not know when the ban began has lifted it. */
const INSERT_BAN = Statement.of(() => {
  const { beganMs, resets, ...ban } = placeholders(
    ...(["keyId", "beganAt", "endsAt", "number", "beganMs", "resets"] as const),
  );
  const lastReset = db
    .select({ at: max(keyChanges.at) })
    .from(apiKeys)
    .innerJoin(keyChanges, eq(keyChanges.keyId, apiKeys.id))
    .where(
      and(eq(apiKeys.id, ban.keyId), gt(apiKeys.resets, resets), eq(keyChanges.action, "reset")),
    );
  return db
    .insert(keyBans)
    .values({ ...ban, liftedAt: sql`max(${beganMs}, ${lastReset})` })
    .onConflictDoNothing();
});

/** When a report began or, if it is late, arrives: it must not change what later ones have stored. */
const presentMs = (nowMs: Placeholder) => sql`max(${nowMs}, ${DATABASE_TIME})`;

/** Removes the days that a clock was ahead of. Their usage is reported on the right day. */
const REMOVE_LATER_USAGE = Statement.of(() => {
  const { keyId, nowMs } = placeholders("keyId", "nowMs");
  const today = sql`date(${presentMs(nowMs)} / 1000, 'unixepoch')`;
  return db.delete(keyUsage).where(and(eq(keyUsage.keyId, keyId), gt(keyUsage.day, today)));
});

/** Lifts the bans that a clock was ahead of: for the limiter, they are over. */
const LIFT_LATER_BANS = Statement.of(() => {
  const { keyId, nowMs } = placeholders("keyId", "nowMs");
  const isLater = and(gt(keyBans.beganAt, presentMs(nowMs)), isNull(keyBans.liftedAt));
  return db
    .update(keyBans)
    .set({ liftedAt: sql`${nowMs}` })
    .where(and(eq(keyBans.keyId, keyId), isLater));
});

/** Inserts or updates the usage of a day. Writes no row if nothing has changed. */
const REPORT_USAGE = Statement.of(() => {
  const columns = getTableColumns(keyUsage);
  const { keyId, day, perMinute, perDay, reportedAt, ...totals } = columns;
  const reported = (column: SQLiteColumn) => sql`excluded.${sql.identifier(column.name)}`;
  // A report never lowers a total: a limiter may have lost counts that it reported.
  const raised = Object.entries(totals).map(([name, column]) => {
    return [name, sql`max(${column}, ${reported(column)})`] as const;
  });
  return db
    .insert(keyUsage)
    .values(placeholders(...(Object.keys(columns) as (keyof typeof columns)[])))
    .onConflictDoUpdate({
      target: [day, keyId],
      set: {
        reportedAt: reported(reportedAt),
        perMinute: reported(perMinute),
        perDay: reported(perDay),
        ...Object.fromEntries(raised),
      },
      // A late report has nothing new: it would replace the limits of a later one.
      setWhere: sql`${and(
        or(lte(reportedAt, reported(reportedAt)), gt(reportedAt, DATABASE_TIME)),
        or(
          ...[perMinute, perDay].map((column) => ne(column, reported(column))),
          ...Object.values(totals).map((column) => lt(column, reported(column))),
          gt(reportedAt, reported(reportedAt)),
        ),
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
  #reportedUsage: Usage = [];

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

  /** Whether the usage has changed since the last report. */
  get hasNews(): boolean {
    return this.#usage !== this.#reportedUsage;
  }

  /** Milliseconds within which the usage that is about to be stored must be reported. */
  get nextReportMs(): number {
    const last = this.#usage.at(-1)?.day;
    const isFirst = !this.#storedUsage.some(({ day }) => day === last);
    return isFirst ? FIRST_REPORT_MS : REPORT_EVERY_MS;
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

  /** Returns everything to report now. What a clock that was ahead has counted is of today. */
  unreportedAt(nowMs: number): Unreported {
    this.#usage = usageUntil(this.#usage, dayOf(nowMs));
    return { usage: this.#usage, bans: this.#bans };
  }

  /**
   * Writes usage and new bans, which must be on disk, to the database, in one transaction. Then
   * forgets the bans, and the days that are over. A repeated or delayed report neither doubles nor
   * lowers a count.
   *
   * @returns whether the report succeeded. If not, the next report includes everything again.
   */
  async report(database: D1Database, { usage, bans }: Unreported): Promise<boolean> {
    if (usage.length + bans.length === 0) return true;
    const nowMs = Date.now();
    const keyId = this.#keyId;
    const statements = [
      REMOVE_LATER_USAGE.bind(database, { keyId, nowMs }),
      ...bans.map(({ beganMs, untilMs, ...ban }) => {
        const [beganAt, endsAt] = [new Date(beganMs), new Date(untilMs)];
        return INSERT_BAN.bind(database, { keyId, beganMs, beganAt, endsAt, ...ban });
      }),
      ...usage.map(({ day, limits, ...totals }) => {
        const of = { keyId, day: dayText(day), reportedAt: new Date(nowMs) };
        return REPORT_USAGE.bind(database, { ...of, ...limits, ...totals });
      }),
      LIFT_LATER_BANS.bind(database, { keyId, nowMs }),
    ];
    try {
      await this.#queries.run(() => database.batch(statements));
    } catch (error) {
      logFailure({ event: "report_failed", keyId, error });
      return false;
    }
    this.#bans = this.#bans.filter((unreported) => !bans.includes(unreported));
    // Only days that were over when this report began: later counts may belong to another day.
    const today = dayOf(nowMs);
    const remaining = this.#usage.filter(({ day: counted }) => counted >= today);
    const isNews = this.#usage !== usage;
    if (remaining.length < this.#usage.length) this.#usage = remaining;
    if (!isNews) this.#reportedUsage = this.#usage;
    return true;
  }
}
