import type { ErrorCode } from "../../rules/error-codes.ts";
import type { Plan } from "../../rules/limits/plans.ts";
import type { WindowName } from "../../rules/limits/windows.ts";

/** The log fields of one request. They omit secrets, the path as sent and the client's address. */
export interface RequestRecord {
  readonly event: "request";
  readonly requestId: string;
  /** `null` if the request was not authenticated. */
  readonly keyId: string | null;
  readonly method: string;
  /** The route pattern that matched the path; `/v1/*` or `/*` for unknown paths. */
  readonly route: string;
  readonly status: number;
  readonly code: ErrorCode | null;
  readonly plan: Plan | null;
  /** The window that the `X-RateLimit-*` headers describe. */
  readonly window: WindowName | null;
  readonly limit: number | null;
  readonly remaining: number | null;
  /** The time until the response headers are ready. A Worker's clock advances only after I/O. */
  readonly durationMs: number;
  /** The IATA code of the Cloudflare data centre that handled the request. */
  readonly region: string | null;
  /** The client's country according to Cloudflare (ISO 3166-1 alpha-2). */
  readonly country: string | null;
  /** The number of requests that this record represents: its own and any that sampling skipped. */
  readonly represents: number;
  /** The parts of the service that failed during this request; `null` if no part failed. */
  readonly degraded: Degradation | null;
  /** If `LIST_READS` is `nearest`: the database that served a list, such as `replica WEUR`. */
  readonly servedBy: string | null;
}

/**
 * `limiter`: the fallback limiter decided, or the key's limiter is overloaded. `orders`, `keys`: the
 * response is 503, and the request needed this database.
 */
export type Degradation = "limiter" | "orders" | "keys" | "limiter,orders";

/**
 * Converts a record to a data point of Workers Analytics Engine; `null` becomes `""` or -1. A data
 * point holds at most an index of 96 bytes, 20 blobs of 16 KB in total, and 20 doubles.
 */
export function toDataPoint(record: RequestRecord) {
  const { route, method, code, plan, window, region, country, degraded, servedBy } = record;
  const { status, durationMs, limit, remaining, represents } = record;
  // Add fields only at the end: stored rows contain no field names.
  const blobs = [route, method, code, plan, window, region, country, degraded, servedBy];
  const doubles = [status, durationMs, limit, remaining, represents];
  return {
    // Analytics Engine samples each index separately, so a flood of requests without a valid key does
    // not thin out the data of any key.
    indexes: [record.keyId ?? "anonymous"],
    blobs: blobs.map((value) => value ?? ""),
    doubles: doubles.map((value) => value ?? -1),
  };
}
