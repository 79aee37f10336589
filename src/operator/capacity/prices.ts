const WORKERS = "https://developers.cloudflare.com/workers/platform/pricing/";
const OBJECTS = "https://developers.cloudflare.com/durable-objects/platform/pricing/";
const D1 = "https://developers.cloudflare.com/d1/platform/pricing/";
const ANALYTICS = "https://developers.cloudflare.com/analytics/analytics-engine/pricing/";
const LOGS = "https://developers.cloudflare.com/observability/pricing/";
/** The change in which Cloudflare documented that it rounds up the use of Durable Objects. */
const ROUNDING = "https://github.com/cloudflare/cloudflare-docs/pull/32525";

/** The day on which the prices and limits were looked up. */
export const LOOKED_UP = "2026-11-22";
export const PRICE_SOURCES = [WORKERS, OBJECTS, ROUNDING, D1, ANALYTICS, LOGS];

/** The monthly price of the plan in dollars. Data that is sent to clients costs nothing. */
export const PLAN_DOLLARS = 5;

export const PRICES = {
  requests: million("Worker requests", 0.3, "requests", 10e6, WORKERS),
  cpuMs: million("Worker processor time", 0.02, "ms", 30e6, WORKERS),
  objectCalls: million("Object calls and alarms", 0.15, "calls", 1e6, OBJECTS),
  objectGbSeconds: million("Object duration", 12.5, "GB-s", 400e3, OBJECTS),
  objectRowsWritten: million("Object rows written", 1, "rows", 50e6, OBJECTS),
  objectGb: gigabyte("Object storage", 0.2, 5, OBJECTS),
  rowsRead: million("D1 rows read", 0.001, "rows", 25e9, D1),
  rowsWritten: million("D1 rows written", 1, "rows", 50e6, D1),
  databaseGb: gigabyte("D1 storage", 0.75, 5, D1),
  dataPoints: million("Analytics data points", 0.25, "points", 10e6, ANALYTICS),
  logGb: gigabyte("Workers Logs ingested", 0.25, 50, LOGS),
  logGbMonths: gigabyte("Workers Logs stored", 0.1, 12, LOGS),
};

/** The use of each item in a month, in the item's unit. */
export type Use = Readonly<Record<keyof typeof PRICES, number>>;

/**
 * Calculates the costs of a month. `items`: the costs of the use that the plan does not include.
 * `total`: these costs and the price of the plan.
 */
export function billFor(use: Use): { items: Use; total: number } {
  const items = Object.fromEntries(
    (Object.keys(PRICES) as (keyof Use)[]).map((item) => [item, cost(use[item], PRICES[item])]),
  ) as Use;
  return { items, total: Object.values(items).reduce((sum, item) => sum + item, PLAN_DOLLARS) };
}

function cost(used: number, { dollars, per, included, isRoundedUp }: Price): number {
  const units = Math.max(0, used - included) / per;
  return (isRoundedUp ? Math.ceil(units) : units) * dollars;
}

type Price = ReturnType<typeof million>;

/**
 * Returns the price of an item: `dollars` for each million units beyond the `included` units of a
 * month. The use of Durable Objects beyond these units is rounded up to whole millions.
 */
function million(title: string, dollars: number, unit: string, included: number, source: string) {
  return { title, dollars, per: 1e6, unit, included, isRoundedUp: source === OBJECTS };
}

function gigabyte(title: string, dollars: number, included: number, source: string): Price {
  return { ...million(title, dollars, "GB-month", included, source), per: 1 };
}
