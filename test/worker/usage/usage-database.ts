import { DatabaseSync } from "node:sqlite";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import type { Ban } from "../../../src/rules/limits/bans.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import { prepare } from "../orders/isolates/order-database.ts";

const PEAKS = { peakMinute: 0, peakDay: 0, perMinute: 0, perDay: 0 };
const UNUSED = { admitted: 0, refused: 0, strikes: 0, bans: 0, ...PEAKS };

/** What operators read of a key: its usage on each day in UTC, and its bans, the oldest first. */
export interface Sum {
  readonly days: Readonly<Record<string, Readonly<typeof UNUSED>>>;
  readonly bans: readonly (Pick<Ban, "beganMs" | "untilMs" | "number"> & { liftedAt: null })[];
}

export const NOTHING: Sum = { days: {}, bans: [] };

/** Adds a decision to a sum, as docs/operating.md says. */
export function plus(
  { days, bans }: Sum,
  { nowMs, admitted, minute, day }: Decision,
  more: { readonly refused: number; readonly strikes: number; readonly newBan: Ban | null },
): Sum {
  const today = new Date(nowMs).toISOString().slice(0, 10);
  const before = days[today] ?? UNUSED;
  const isBan = more.newBan !== null && !more.newBan.loggedOnly;
  const after = {
    admitted: before.admitted + Number(admitted),
    refused: before.refused + Number(!admitted) + more.refused,
    strikes: before.strikes + more.strikes,
    bans: before.bans + Number(isBan),
    peakMinute: Math.max(before.peakMinute, minute.limit - minute.remaining),
    peakDay: Math.max(before.peakDay, day.limit - day.remaining),
    perMinute: minute.limit,
    perDay: day.limit,
  };
  const { beganMs, untilMs, number } = more.newBan ?? { beganMs: 0, untilMs: 0, number: 0 };
  const newBans = isBan ? [{ beganMs, untilMs, number, liftedAt: null }] : [];
  return { days: { ...days, [today]: after }, bans: [...bans, ...newBans] };
}

const sqlite = new DatabaseSync(":memory:");
sqlite.function("now_microseconds", () => BigInt(Date.now()) * 1_000n);
for (const migration of readMigrations("keys")) sqlite.exec(migration.sql);

/** The number of times that the database was emptied: reports of earlier worlds are ignored. */
let newest = 0;

/** Empties the keys database. Returns it with a `send` before each of its transactions. */
export function emptyUsageDatabase(send: (transact: () => void) => Promise<void>) {
  sqlite.exec("DELETE FROM key_usage; DELETE FROM key_bans");
  const generation = (newest += 1);
  const batch = async (statements: readonly { sql: string; values: [] }[]) => {
    await send(() => {
      if (generation !== newest) return;
      sqlite.exec("BEGIN");
      for (const { sql, values } of statements) prepare(sqlite, sql).run(...values);
      sqlite.exec("COMMIT");
    });
    return [];
  };
  return { prepare: (sql: string) => ({ bind: (...values: []) => ({ sql, values }) }), batch };
}

const USAGE = `SELECT day, admitted, refused, strikes, bans, peak_minute AS peakMinute,
  peak_day AS peakDay, per_minute AS perMinute, per_day AS perDay FROM key_usage ORDER BY day`;
const BANS = `SELECT began_at AS beganMs, ends_at AS untilMs, number, lifted_at AS liftedAt
  FROM key_bans ORDER BY began_at`;

export function readUsage(): Sum {
  const rows = prepare(sqlite, USAGE).all();
  const days = Object.fromEntries(rows.map(({ day, ...counts }) => [day, counts]));
  const bans = prepare(sqlite, BANS).all();
  return { days, bans: bans.map((ban) => ({ ...ban })) } as unknown as Sum;
}
