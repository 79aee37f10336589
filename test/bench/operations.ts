import { PRICES } from "../../src/operator/metrics/prices.ts";
import type { Operations } from "./observed/counted-service.ts";
import type { Server } from "./server.ts";

const BYTES_OF_GB = 1_000_000_000;

/** Returns the operations that a counting service has counted since the previous call. */
export async function operationsSince(server: Server): Promise<Operations> {
  const response = await fetch(`${server.url}/operations`);
  return (await response.json()) as Operations;
}

/**
 * Returns the price in dollars of operations. Cloudflare bills rows, not queries.
 *
 * @param withTelemetry whether to include log lines and data points. Cloudflare does not bill data
 *   points yet.
 */
export function dollarsOf(counted: Operations, withTelemetry: boolean): number {
  const { objectCalls, objectRowsWritten, rowsRead, rowsWritten, dataPoints, logGb } = PRICES;
  const dollars =
    counted.objectCalls * objectCalls.dollars +
    counted.objectRowsWritten * objectRowsWritten.dollars +
    counted.rowsRead * rowsRead.dollars +
    counted.rowsWritten * rowsWritten.dollars +
    (withTelemetry ? counted.dataPoints * dataPoints.dollars : 0);
  const logDollars = withTelemetry ? (counted.logBytes / BYTES_OF_GB) * logGb.dollars : 0;
  return dollars / 1e6 + logDollars;
}
