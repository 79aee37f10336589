/**
 * The price of each item on the Workers Paid plan, as of 2026-11-22: `dollars` for each `per` units
 * beyond the `included` units of a month. Sources: the pages about the pricing of Workers, Durable
 * Objects, D1, Analytics Engine and Workers Logs on developers.cloudflare.com.
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

/** The use of each item in a month, in the item's unit. */
export type Use = Readonly<Record<keyof typeof PRICES, number>>;

function million(title: string, dollars: number, included: number) {
  return { title, dollars, per: 1e6, included };
}

function gigabyte(title: string, dollars: number, included: number) {
  return { title, dollars, per: 1, included };
}
