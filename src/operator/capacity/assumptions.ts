/** Figures that only a service with callers can measure. Each is an option of the command. */
export const ASSUMPTIONS = {
  requestsPerKey: [160, "requests a day for each key, unused keys included"],
  activeShare: [0.4, "share of the keys that send a request on a day"],
  peakFactor: [1.6, "requests in the busiest hour, divided by the average"],
  cancelShare: [0.05, "share of the admitted requests that cancel an order"],
  conditionalShare: [0.5, "share of the lists with If-None-Match"],
  secondsBetweenLists: [1, "seconds between two lists of one client"],
  refusedShare: [0.02, "share of the requests that a Durable Object refuses"],
  repeatedShare: [0.12, "share of the requests that an isolate refuses from memory"],
  unauthorizedShare: [0.02, "requests without a valid key, for each request with one"],
  lookUpShare: [0.25, "share of the requests whose key the isolate looks up"],
  changesPerOrder: [0.005, "placements and shipments a day for each stored order"],
  dataCentres: [50, "Cloudflare data centres that receive requests"],
  isolates: [4, "isolates in each data centre"],
  usageDays: [365, "days for which usage reports are kept"],
} as const satisfies Readonly<Record<string, readonly [value: number, meaning: string]>>;

export type Assumptions = Readonly<Record<keyof typeof ASSUMPTIONS, number>>;

/**
 * Sizes and times of the estimate. `test/worker/operations` checks the sizes. The times come from
 * `npm run bench` and from Cloudflare's documentation.
 */
export const MEASURED = {
  /** In D1, indexes included. */
  orderBytes: 50,
  keyBytes: 480,
  usageReportBytes: 66,
  /** A Durable Object after a day with requests. */
  objectBytes: 12_288,
  /** An order in the JSON of a list, and in the memory of an isolate. */
  listedOrderBytes: 97,
  keptOrderBytes: 49,
  /** A line of the log with the fields that Cloudflare adds. */
  logLineBytes: 1_000,
  /** Times for which the database is busy. */
  readMs: 1,
  writeMs: 5,
  segmentReadMs: 4.5,
  manifestMsPerSegment: 0.005,
  /** From the Worker to the data centre's cache, and to a database on another continent. */
  cacheCallMs: 10,
  queryMs: 200,
  /** Processor time of the Worker. */
  requestCpuMs: 1,
  orderCpuMs: 0.000_063,
  /** The time for which a Durable Object is active on a call. */
  objectCallMs: 10,
  /** The bandwidth of a client. */
  clientBitsPerSecond: 100e6,
} as const;
