/** The assumptions about callers, with defaults. Each assumption is an option of the command. */
export const ASSUMPTIONS = {
  requestsPerKey: [160, "requests a day for each key, unused keys included"],
  activeShare: [0.4, "share of the keys that send a request on a day"],
  peakFactor: [1.6, "requests in the busiest hour, divided by the average hour"],
  cancelShare: [0.05, "share of the admitted requests that cancel an order"],
  conditionalShare: [0.5, "share of the list requests with If-None-Match"],
  secondsBetweenLists: [1, "seconds between two lists of one client"],
  refusedShare: [0.02, "share of the requests that a Durable Object refuses"],
  repeatedShare: [0.12, "share of the requests that an isolate refuses from memory"],
  unauthorizedShare: [0.02, "requests without a valid key, per request with a valid key"],
  lookUpShare: [0.25, "share of the requests for which the isolate looks up the key in D1"],
  changesPerOrder: [0.005, "placements and shipments a day for each stored order"],
  dataCentres: [50, "Cloudflare data centres that receive requests"],
  isolates: [4, "isolates in each data centre"],
  usageDays: [365, "days for which usage reports are kept"],
} as const satisfies Readonly<Record<string, readonly [value: number, meaning: string]>>;

export type Assumptions = Readonly<Record<keyof typeof ASSUMPTIONS, number>>;

/**
 * The sizes and times from which the estimate is calculated. `test/worker/operations` checks the
 * sizes. The times come from `npm run bench` and from Cloudflare's documentation.
 */
export const MEASURED = {
  /** The size of an order in D1, indexes included. */
  orderBytes: 50,
  keyBytes: 480,
  usageReportBytes: 66,
  /** The storage of a key's Durable Object after a day with requests. */
  objectBytes: 12_288,
  /** The size of an order in the JSON of a list. */
  listedOrderBytes: 97,
  /** The size of an order in the memory of an isolate. */
  keptOrderBytes: 49,
  /** The size of a log line, including the fields that Cloudflare adds. */
  logLineBytes: 1_000,
  /** How long a small query that reads, or a query that writes, keeps the database busy. */
  readMs: 1,
  writeMs: 5,
  /** How long reading a segment keeps the database busy. */
  segmentReadMs: 4.5,
  /** How long reading the manifest keeps the database busy, divided by the number of segments. */
  manifestMsPerSegment: 0.005,
  /** The duration of a call from the Worker to the cache of its data centre. */
  cacheCallMs: 10,
  /** The duration of a query from the Worker to a database on another continent. */
  queryMs: 200,
  /** The CPU time of the Worker for a request. */
  requestCpuMs: 1,
  /** The CPU time of the Worker for each order of a list. */
  orderCpuMs: 0.000_063,
  /** How long a Durable Object is active for each call. */
  objectCallMs: 10,
  /** The bandwidth at which a client downloads a list. */
  clientBitsPerSecond: 100e6,
} as const;
