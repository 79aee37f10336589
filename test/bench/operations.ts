import type { Operations } from "./observed/counted-service.ts";
import { priceOf } from "./prices.ts";
import type { Cost } from "./report.ts";
import type { Server } from "./server.ts";

/** The vars of production that change the number of billed operations. */
export const PRODUCTION_VARS = { REQUEST_LOG: "all" };

/** Returns the operations that a counting service has counted since the previous call. */
export async function operationsSince(server: Server): Promise<Operations> {
  const response = await fetch(`${server.url}/operations`);
  return (await response.json()) as Operations;
}

/**
 * Returns the mean number of each operation per request, and the price of a million requests.
 *
 * @param request the kind of request, for the report.
 * @param counted the operations of all requests together.
 * @param requests the number of requests that caused `counted`.
 */
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
