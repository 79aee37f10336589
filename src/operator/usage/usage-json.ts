import type { KeyReport } from "./usage-report.ts";
import type { ReportedDay } from "./read-usage.ts";
import { completeBy } from "./complete-by.ts";

/**
 * A key's usage as `--json` prints it. Times are ISO 8601 in UTC, the peaks are from 0 to 1. By
 * `completeBy` the key has reported whatever it did until now.
 */
export function toUsageJson(report: KeyReport, now: Date) {
  const { id, name, plan, admitted, refused, strikes, bans, minutePeak, dayPeak } = report;
  return {
    id,
    name,
    plan,
    admitted,
    refused,
    strikes,
    bans,
    minutePeak,
    dayPeak,
    reportedAt: report.reportedAt?.toISOString() ?? null,
    completeBy: completeBy(now).toISOString(),
    bannedUntil: report.bannedUntil?.toISOString() ?? null,
    days: report.days.map(toDayJson),
  };
}

function toDayJson(counted: ReportedDay) {
  const { day, admitted, refused, strikes, bans, reportedAt } = counted;
  const { peakMinute, peakDay, perMinute, perDay } = counted;
  return {
    day,
    admitted,
    refused,
    strikes,
    bans,
    peakMinute,
    peakDay,
    perMinute,
    perDay,
    reportedAt: reportedAt.toISOString(),
  };
}
