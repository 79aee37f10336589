import { PRICES } from "../../src/operator/capacity/prices.ts";
import type { Operations } from "./observed/counted-service.ts";

const BYTES_OF_GB = 1_000_000_000;

/** The price in dollars of a million of each operation. Cloudflare bills rows, not queries. */
const DOLLARS = {
  objectCalls: PRICES.objectCalls.dollars,
  objectRowsWritten: PRICES.objectRowsWritten.dollars,
  rowsRead: PRICES.rowsRead.dollars,
  rowsWritten: PRICES.rowsWritten.dollars,
};

/**
 * The price in dollars of a million data points, and of a million bytes of log. Cloudflare does not
 * bill data points yet.
 */
const TELEMETRY_DOLLARS = {
  dataPoints: PRICES.dataPoints.dollars,
  logBytes: (PRICES.logGb.dollars / BYTES_OF_GB) * 1_000_000,
};

/** Returns the price in dollars of a million requests that each cause these operations. */
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
