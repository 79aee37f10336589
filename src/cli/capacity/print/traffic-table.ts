import { PLANS } from "../../../db/schema.ts";
import type { CapacityReport } from "../report.ts";
import type { DayMeans } from "../traffic/day-means.ts";
import { sentPerDay } from "../traffic/traffic.ts";
import { count, percent } from "./figures.ts";
import { titledTable } from "./titled-table.ts";

/** What an active key of each plan does on a day. */
export function trafficTable({ traffic, assumptions }: CapacityReport): string {
  const { byPlan, mean, activeShare, error, peakFactor, sampledKeys } = traffic;
  const plans = PLANS.map((plan) => {
    const { share, activeShare: active } = assumptions.plans[plan];
    return [plan, percent(share), percent(active), ...figures(byPlan[plan], 1)];
  });
  return titledTable(
    "A day of an active key, simulated",
    [
      ["plan", "left"],
      "of the keys",
      "active",
      "sent",
      "admitted",
      "refused",
      "under a ban",
      "asked of the object",
      "look-ups",
      "reports",
    ],
    [...plans, ["all", "100 %", percent(activeShare), ...figures(mean, activeShare)]],
    `${count(sampledKeys)} keys, seed ${assumptions.seed}; of what all admit the standard error is ` +
      `${percent(error)}. The busiest hour has ${peakFactor.toFixed(2)} times the average.`,
  );
}

/** @param activeShare of the keys of which `day` is the mean. */
function figures(day: DayMeans, activeShare: number): string[] {
  const sent = sentPerDay(day);
  const refused = day.refusedByObject + day.refusedFromMemory;
  return [
    count(sent / activeShare),
    count(day.admitted / activeShare),
    percent(refused / sent),
    percent(day.refusedByBan / sent),
    percent((sent - day.refusedFromMemory) / sent),
    count(day.keyLookUps / activeShare),
    count(day.reports / activeShare),
  ];
}
