import { z } from "zod";
import { PRICES, type Use } from "./prices.ts";
import type { CloudflareApi } from "../cloudflare-api.ts";

const DAY_MS = 86_400_000;

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

function groupsOf<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.array(z.object({ sum: z.object(shape) }));
}

const accountSchema = z.object({
  workers: groupsOf({ requests: z.number(), cpuTimeUs: z.number() }),
  calls: groupsOf({ requests: z.number() }),
  objects: groupsOf({ duration: z.number(), rowsWritten: z.number() }),
  databases: groupsOf({ rowsRead: z.number(), rowsWritten: z.number() }),
});

const answerSchema = z.object({
  data: z.object({ viewer: z.object({ accounts: z.tuple([accountSchema]) }) }),
});

interface Cost {
  readonly dollars: number;
  /** The title of the billed item with the highest cost, such as requests or CPU time. */
  readonly most: string;
}

/**
 * Calculates what the use of the account in the last 24 hours would cost if the plan included no
 * free use. Leaves out logs, data points and storage.
 *
 * @throws an Error for the operator.
 */
export async function costOfLastDay(api: CloudflareApi, now: Date): Promise<Cost> {
  const from = new Date(now.getTime() - DAY_MS).toISOString();
  const account = api.account.replace("/accounts/", "");
  const variables = { account, from, to: now.toISOString() };
  const answer = await api.query("/graphql", answerSchema, { query: QUERY, variables });
  const { workers, calls, objects, databases } = answer.data.viewer.accounts[0];
  const use: Partial<Use> = {
    requests: total(workers, (sum) => sum.requests),
    cpuMs: total(workers, (sum) => sum.cpuTimeUs) / 1_000,
    objectCalls: total(calls, (sum) => sum.requests),
    objectGbSeconds: total(objects, (sum) => sum.duration),
    objectRowsWritten: total(objects, (sum) => sum.rowsWritten),
    rowsRead: total(databases, (sum) => sum.rowsRead),
    rowsWritten: total(databases, (sum) => sum.rowsWritten),
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

function total<Sum>(
  groups: readonly { readonly sum: Sum }[],
  valueOf: (sum: Sum) => number,
): number {
  return groups.reduce((sum, group) => sum + valueOf(group.sum), 0);
}
