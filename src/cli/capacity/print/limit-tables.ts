import type { BreakingPoint } from "../breaking-points.ts";
import { PLATFORM_LIMITS } from "../platform-limits.ts";
import { REMEDIES } from "../remedies.ts";
import type { CapacityReport } from "../report.ts";
import { count } from "./figures.ts";
import { titledTable } from "./titled-table.ts";

/** Which limits break, when, and what to do then. */
export function limitTables({ asKeysGrow, asOrdersGrow, smallest }: CapacityReport): string[] {
  const points = [...asKeysGrow, ...asOrdersGrow];
  const names = [...new Set(points.map(({ name }) => name))];
  const remedies = names.map((name) =>
    [PLATFORM_LIMITS[name].title, ...REMEDIES[name].map((remedy) => `  - ${remedy}`)].join("\n"),
  );
  return [
    breakingTable(
      `What breaks as keys grow, with ${count(smallest.orders)} orders`,
      "keys",
      asKeysGrow,
    ),
    breakingTable(
      `What breaks as orders grow, with ${count(smallest.keys)} keys`,
      "orders",
      asOrdersGrow,
    ),
    ...(remedies.length > 0 ? ["What to do then", ...remedies] : []),
  ];
}

function breakingTable(title: string, growing: string, points: readonly BreakingPoint[]): string {
  const rows = points.map(({ name, from }) => [count(from), PLATFORM_LIMITS[name].title]);
  return titledTable(title, [`from ${growing}`, ["limit", "left"]], rows);
}
