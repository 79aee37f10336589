import { dayText, type Usage } from "./day-usage.ts";

/**
 * The columns of `key_usage` that a usage report never lowers. A report may be too low, because a
 * limiter may have lost counts that it reported before.
 */
const TOTALS = ["admitted", "refused", "strikes", "bans", "peak_minute", "peak_day"];

// If nothing has changed, the WHERE clause skips the update, so the report writes no row.
const REPORT = `
  INSERT INTO key_usage (key_id, day, reported_at, per_minute, per_day, ${TOTALS.join(", ")})
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
  ON CONFLICT (day, key_id) DO UPDATE SET
    reported_at = excluded.reported_at, per_minute = excluded.per_minute, per_day = excluded.per_day,
    ${TOTALS.map((total) => `${total} = max(${total}, excluded.${total})`).join(", ")}
  WHERE per_minute <> excluded.per_minute OR per_day <> excluded.per_day
    OR ${TOTALS.map((total) => `excluded.${total} > ${total}`).join(" OR ")}`;

/**
 * Writes a key's usage to the database. A repeated or delayed report changes nothing. The drawback:
 * a later report cannot lower a total that was too high.
 */
export async function reportUsage(
  database: D1Database,
  keyId: string,
  usage: Usage,
  now: Date,
): Promise<void> {
  const statement = database.prepare(REPORT);
  for (const { day, limits, ...totals } of usage) {
    const { admitted, refused, strikes, bans, peakMinute, peakDay } = totals;
    const latest = [now.getTime(), limits.perMinute, limits.perDay];
    const counted = [admitted, refused, strikes, bans, peakMinute, peakDay];
    await statement.bind(keyId, dayText(day), ...latest, ...counted).run();
  }
}
