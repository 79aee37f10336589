import type { CapacityReport } from "../report.ts";
import { limitTables } from "./limit-tables.ts";
import { monthTables } from "./month-tables.ts";
import { sourceTables } from "./source-tables.ts";
import { trafficTable } from "./traffic-table.ts";

/** Prints the report for people. */
export function printReport(report: CapacityReport): void {
  const parts = [
    trafficTable(report),
    ...monthTables(report),
    ...limitTables(report),
    ...sourceTables(report),
  ];
  process.stdout.write(`${parts.join("\n\n")}\n`);
}
