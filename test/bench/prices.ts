import { PRICES } from "../../src/operator/capacity/prices.ts";
import type { Operations } from "./observed/counted-service.ts";

const BYTES_OF_GB = 1_000_000_000;

/** Dollars for a million of each operation. Queries themselves are free. */
const DOLLARS = {
  objectCalls: PRICES.objectCalls.dollars,
  objectRowsWritten: PRICES.objectRowsWritten.dollars,
  rowsRead: PRICES.rowsRead.dollars,
  rowsWritten: PRICES.rowsWritten.dollars,
};

/** Dollars for a million of each unit. Data points are not billed yet. */
const TELEMETRY_DOLLARS = {
  dataPoints: PRICES.dataPoints.dollars,
  logBytes: (PRICES.logGb.dollars / BYTES_OF_GB) * 1_000_000,
};

/** Returns the price of a million times these operations, in dollars. */
export function priceOf(operations: Operations): { dollars: number; telemetryDollars: number } {
  return {
    dollars: sum(DOLLARS, operations),
    telemetryDollars: sum(TELEMETRY_DOLLARS, operations),
  };
}

function sum<Name extends keyof Operations>(
  dollars: Readonly<Record<Name, number>>,
  operations: Operations,
): number {
  const names = Object.keys(dollars) as Name[];
  return names.reduce((total, name) => total + dollars[name] * operations[name], 0);
}
