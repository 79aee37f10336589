import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The GraphQL query for an account's metered use, summed over all Workers. */
const QUERY = `query ($account: string!, $from: Time!, $to: Time!) {
  viewer {
    accounts(filter: { accountTag: $account }) {
      workers: workersInvocationsAdaptive(limit: 10000, filter: { datetime_geq: $from, datetime_lt: $to }) { sum { requests cpuTimeUs } }
      calls: durableObjectsInvocationsAdaptiveGroups(limit: 10000, filter: { datetime_geq: $from, datetime_lt: $to }) { sum { requests } }
      objects: durableObjectsPeriodicGroups(limit: 10000, filter: { datetime_geq: $from, datetime_lt: $to }) { sum { duration rowsWritten } }
      databases: d1AnalyticsAdaptiveGroups(limit: 10000, filter: { datetimeHour_geq: $from, datetimeHour_lt: $to }) { sum { rowsRead rowsWritten } }
    }
  }
}`;

const sums = <Name extends string>(...names: Name[]) =>
  z.array(z.object({ sum: z.record(z.enum(names), z.number()) }));

const accountSchema = z.object({
  workers: sums("requests", "cpuTimeUs"),
  calls: sums("requests"),
  objects: sums("duration", "rowsWritten"),
  databases: sums("rowsRead", "rowsWritten"),
});

const viewerSchema = z.object({ accounts: z.tuple([accountSchema]) });
const answerSchema = z.object({ data: z.object({ viewer: viewerSchema }) });

/**
 * The prices of the Workers Paid plan on 2026-11-22. A month includes `included` units of an item;
 * `dollars` is the price of `per` further units. Sources: the pages about the pricing of Workers,
 * Durable Objects, D1, Analytics Engine and Workers Logs on developers.cloudflare.com.
 */
export const PRICES = {
  requests: million("Worker requests", 0.3, 10e6),
  cpuMs: million("Worker processor time", 0.02, 30e6),
  objectCalls: million("Object calls and alarms", 0.15, 1e6),
  objectGbSeconds: million("Object duration", 12.5, 400e3),
  objectRowsWritten: million("Object rows written", 1, 50e6),
  objectGb: gigabyte("Object storage", 0.2, 5),
  rowsRead: million("D1 rows read", 0.001, 25e9),
  rowsWritten: million("D1 rows written", 1, 50e6),
  databaseGb: gigabyte("D1 storage", 0.75, 5),
  dataPoints: million("Analytics data points", 0.25, 10e6),
  logGb: gigabyte("Workers Logs ingested", 0.25, 50),
  logGbMonths: gigabyte("Workers Logs stored", 0.1, 12),
};

/** The use of each item, in the unit of its price. */
export type Use = Readonly<Record<keyof typeof PRICES, number>>;

function million(title: string, dollars: number, included: number) {
  return { title, dollars, per: 1e6, included };
}

function gigabyte(title: string, dollars: number, included: number) {
  return { title, dollars, per: 1, included };
}

/**
 * Calculates the cost of the account's use in the last 24 whole hours. Finds the costliest item.
 * Does not subtract the use that the plan includes. Leaves out logs, data points and storage.
 */
export async function costOfLastDay(api: CloudflareApi, now: Date) {
  // Cloudflare reports the use of databases by the hour only.
  const toMs = Math.floor(now.getTime() / HOUR_MS) * HOUR_MS;
  const [from, to] = [toMs - DAY_MS, toMs].map((ms) => new Date(ms).toISOString());
  const account = api.account.replace("/accounts/", "");
  const variables = { account, from, to };
  const answer = await api.query("/graphql", answerSchema, { query: QUERY, variables });
  const { workers, calls, objects, databases } = answer.data.viewer.accounts[0];
  const use: Partial<Use> = {
    requests: total(workers, "requests"),
    cpuMs: total(workers, "cpuTimeUs") / 1_000,
    objectCalls: total(calls, "requests"),
    objectGbSeconds: total(objects, "duration"),
    objectRowsWritten: total(objects, "rowsWritten"),
    rowsRead: total(databases, "rowsRead"),
    rowsWritten: total(databases, "rowsWritten"),
  };
  const items = (Object.entries(use) as [keyof Use, number][])
    .map(([item, used]) => {
      const { title, per, dollars } = PRICES[item];
      return { title, dollars: (used / per) * dollars };
    })
    .toSorted((one, other) => other.dollars - one.dollars);
  return {
    dollars: items.reduce((sum, { dollars }) => sum + dollars, 0),
    most: items[0]?.title ?? "",
  };
}

function total<Name extends string>(
  groups: readonly { readonly sum: Readonly<Record<Name, number>> }[],
  name: Name,
): number {
  return groups.reduce((sum, group) => sum + group.sum[name], 0);
}
