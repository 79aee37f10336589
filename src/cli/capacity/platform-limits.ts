/** A limit that Cloudflare publishes for the Workers Paid plan. */
export interface PlatformLimit {
  readonly title: string;
  readonly limit: number;
  readonly unit: string;
  readonly source: string;
  readonly note?: string;
}

const D1 = "https://developers.cloudflare.com/d1/platform/limits/";
const WORKERS = "https://developers.cloudflare.com/workers/platform/limits/";

export const PLATFORM_LIMITS = {
  databaseBytes: {
    title: "Size of one D1 database",
    limit: 10e9,
    unit: "bytes",
    source: D1,
    note: "cannot be raised; 1 TB an account, 50,000 databases, some 5,000 of them bound to a Worker",
  },
  databaseTime: {
    title: "Time of one D1 database",
    limit: 1,
    unit: "of the busiest hour",
    source: "https://developers.cloudflare.com/d1/reference/faq/",
    note: "queries run one after the other: 1,000 a second of 1 ms each; a replica counts by itself",
  },
  queriesPerRequest: {
    title: "D1 queries in one invocation",
    limit: 1_000,
    unit: "queries",
    source: D1,
    note: "the page on Workers allows 10,000 subrequests, D1's included, and [limits] subrequests up to 10 million; the lower is taken",
  },
  requestCpuMs: {
    title: "Processor time of one invocation",
    limit: 30_000,
    unit: "ms",
    source: WORKERS,
    note: "[limits] cpu_ms raises it to 5 minutes",
  },
  afterAnswerSeconds: {
    title: "Time after the answer, in which the cache is filled",
    limit: 30,
    unit: "s",
    source: WORKERS,
    note: "as long as a request has, too, where the runtime is updated under it, a few times a week",
  },
  cacheEntryBytes: {
    title: "One entry of the cache",
    limit: 512e6,
    unit: "bytes",
    source: WORKERS,
  },
  isolateBytes: {
    title: "Memory of an isolate",
    limit: 128e6,
    unit: "bytes",
    source: WORKERS,
  },
  objectCallsPerSecond: {
    title: "Calls of one object that writes",
    limit: 200,
    unit: "calls a second",
    source:
      "https://developers.cloudflare.com/durable-objects/best-practices/rules-of-durable-objects/",
    note: "200 to 500 with storage writes; so an Enterprise key of more than 12,000 a minute may be too much",
  },
} as const satisfies Readonly<Record<string, PlatformLimit>>;

export type PlatformLimitName = keyof typeof PLATFORM_LIMITS;

/** The limits of which more is used as the service grows; an object has but one key to count for. */
export type GrowingLimit = Exclude<PlatformLimitName, "objectCallsPerSecond">;
