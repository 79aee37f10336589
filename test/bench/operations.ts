import type { Operations } from "./observed/counted-service.ts";
import { priceOf } from "./prices.ts";
import type { Cost } from "./report.ts";
import type { Server } from "./server.ts";

/** Settings of production that change the number of operations. */
export const PRODUCTION_VARS = { REQUEST_LOG: "all" };

/** Reads the operations of a counting service since the last reading. */
export async function operationsSince(server: Server): Promise<Operations> {
  const response = await fetch(`${server.url}/operations`);
  return (await response.json()) as Operations;
}

/** Returns the operations and the price of one request, as the mean over `requests`. */
export function costOf(request: string, counted: Operations, requests: number): Cost {
  const means = Object.entries(counted).map(([name, count]) => [name, count / requests]);
  const operations = Object.fromEntries(means) as Operations;
  const { dollars, telemetryDollars } = priceOf(operations);
  return {
    ...operations,
    request,
    dollarsPerMillion: dollars,
    telemetryDollarsPerMillion: telemetryDollars,
  };
}
