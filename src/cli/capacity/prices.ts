/** A price on Cloudflare's Workers Paid plan. */
export interface Price {
  readonly title: string;
  /** For a narrow column. */
  readonly short: string;
  /** What `dollars` buys. */
  readonly per: number;
  readonly unit: string;
  readonly dollars: number;
  /** What the plan includes each month, in units. */
  readonly included: number;
  readonly source: string;
  readonly note?: string;
}

const MILLION = 1_000_000;

const WORKERS = "https://developers.cloudflare.com/workers/platform/pricing/";
const OBJECTS = "https://developers.cloudflare.com/durable-objects/platform/pricing/";
const D1 = "https://developers.cloudflare.com/d1/platform/pricing/";
const ANALYTICS = "https://developers.cloudflare.com/analytics/analytics-engine/pricing/";
const OBSERVABILITY = "https://developers.cloudflare.com/observability/pricing/";

/** When the prices and limits were looked up last. */
export const LOOKED_UP = "2026-11-21";

/** The Workers Paid plan itself, in dollars a month. Data sent is not charged for. */
export const PLAN_DOLLARS = 5;

const LOGS_NOTE =
  "from 2026-12-01; until then $0.60 a million lines, of which 20 million are included";

export const PRICES = {
  requests: {
    title: "Worker requests",
    short: "requests",
    per: MILLION,
    unit: "requests",
    dollars: 0.3,
    included: 10 * MILLION,
    source: WORKERS,
  },
  cpuMs: {
    title: "Worker processor time",
    short: "CPU",
    per: MILLION,
    unit: "ms",
    dollars: 0.02,
    included: 30 * MILLION,
    source: WORKERS,
  },
  objectCalls: {
    title: "Object calls, alarms included",
    short: "object calls",
    per: MILLION,
    unit: "calls",
    dollars: 0.15,
    included: MILLION,
    source: OBJECTS,
  },
  objectGbSeconds: {
    title: "Object duration",
    short: "object time",
    per: MILLION,
    unit: "GB-s",
    dollars: 12.5,
    included: 400_000,
    source: OBJECTS,
    note: "128 MB for as long as an object is at work",
  },
  objectRowsWritten: {
    title: "Object rows written",
    short: "object rows",
    per: MILLION,
    unit: "rows",
    dollars: 1,
    included: 50 * MILLION,
    source: OBJECTS,
    note: "each setAlarm is a row",
  },
  objectGb: {
    title: "Object storage",
    short: "object GB",
    per: 1,
    unit: "GB-month",
    dollars: 0.2,
    included: 5,
    source: OBJECTS,
  },
  rowsRead: {
    title: "D1 rows read",
    short: "rows read",
    per: MILLION,
    unit: "rows",
    dollars: 0.001,
    included: 25_000 * MILLION,
    source: D1,
  },
  rowsWritten: {
    title: "D1 rows written",
    short: "rows written",
    per: MILLION,
    unit: "rows",
    dollars: 1,
    included: 50 * MILLION,
    source: D1,
  },
  databaseGb: {
    title: "D1 storage",
    short: "D1 GB",
    per: 1,
    unit: "GB-month",
    dollars: 0.75,
    included: 5,
    source: D1,
  },
  dataPoints: {
    title: "Analytics Engine data points",
    short: "points",
    per: MILLION,
    unit: "points",
    dollars: 0.25,
    included: 10 * MILLION,
    source: ANALYTICS,
    note: "published, but not billed yet",
  },
  logGb: {
    title: "Workers Logs taken in",
    short: "logs",
    per: 1,
    unit: "GB",
    dollars: 0.25,
    included: 50,
    source: OBSERVABILITY,
    note: LOGS_NOTE,
  },
  logGbMonths: {
    title: "Workers Logs kept, for 7 days",
    short: "logs kept",
    per: 1,
    unit: "GB-month",
    dollars: 0.1,
    included: 12,
    source: OBSERVABILITY,
    note: LOGS_NOTE,
  },
} as const satisfies Readonly<Record<string, Price>>;

export type BilledItem = keyof typeof PRICES;

export const BILLED_ITEMS = Object.keys(PRICES) as BilledItem[];
