import { lastDays, reportOn, type UsageReport } from "../../../src/operator/usage/usage-report.ts";
import type { ReportedDay } from "../../../src/operator/usage/read-usage.ts";

export const NOW = new Date("2026-11-21T10:30:00Z");

/** A key's name that runs a script or breaks the page if the page does not escape it. */
export const HOSTILE_NAME = `</script><b>x</b><script>document.title = "taken over"</script><!--`;

const LIMITS = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
  enterprise: { perMinute: 5_000, perDay: 500_000 },
};

/** Returns a key id that is as long as a real key id. */
export const idOf = (index: number) => `key_${String(index).padStart(16, "a")}`;

type Plan = keyof typeof LIMITS;

interface Used {
  readonly name: string;
  readonly plan: Plan;
  /** The number of admitted requests on each day. The last entry is today. */
  readonly admitted: readonly number[];
  readonly refused?: number;
  readonly bans?: number;
  /** The share of the limit per minute that the fullest minute of each day uses, from 0 to 1. */
  readonly minute?: number;
  /** The share of the limit per day that the requests of each day use, from 0 to 1. */
  readonly day?: number;
  /** The index in `admitted` of the day on which the key's limits double. */
  readonly raisedOn?: number;
}

/** Creates a report of the last `dayCount` days. */
export function reportOf(keys: readonly Used[], dayCount = 14): UsageReport {
  const days = lastDays(dayCount, NOW);
  const identities = keys.map(({ name, plan }, index) => ({
    id: idOf(index),
    name,
    plan,
    ...LIMITS[plan],
  }));
  const rows = keys.flatMap(({ plan, admitted, ...used }, index) =>
    admitted.map((count, dayIndex): ReportedDay => {
      const factor = dayIndex >= (used.raisedOn ?? Infinity) ? 2 : 1;
      const perMinute = factor * LIMITS[plan].perMinute;
      const perDay = factor * LIMITS[plan].perDay;
      return {
        keyId: idOf(index),
        day: days[dayCount - admitted.length + dayIndex]!,
        admitted: count,
        refused: used.refused ?? 0,
        strikes: (used.bans ?? 0) * 60,
        bans: used.bans ?? 0,
        peakMinute: Math.round(perMinute * (used.minute ?? 0.5)),
        peakDay: Math.round(perDay * (used.day ?? 0.3)),
        perMinute,
        perDay,
        reportedAt: new Date(NOW.getTime() - 1_800_000),
      };
    }),
  );
  return reportOn(identities, days, { rows, banDays: [], now: NOW });
}

/** Creates a report of 14 days that has figures for every section of the page. */
export function fortnight(): UsageReport {
  const rise = Array.from({ length: 14 }, (_, index) => (index + 1) * 1_000);
  return reportOf([
    { name: "Zoo", plan: "enterprise", admitted: rise, minute: 1, day: 0.25 },
    { name: "Pet shop", plan: "pro", admitted: rise.map((count) => count / 2), refused: 500 },
    {
      name: HOSTILE_NAME,
      plan: "business",
      admitted: rise.map((count) => count * 0.9),
      refused: 250,
      bans: 2,
      minute: 0.8,
    },
    { name: "Zoo", plan: "free", admitted: [100], bans: 1, minute: 0.1, day: 0.1 },
    { name: "Idle", plan: "free", admitted: [] },
  ]);
}

/** Creates a report with this number of keys, to have more keys than a plot shows. */
export function crowd(count: number): UsageReport {
  return reportOf(
    Array.from({ length: count }, (_, index) => ({
      name: `Customer ${index}`,
      plan: "free" as const,
      admitted: [count - index],
      bans: 1,
    })),
  );
}
