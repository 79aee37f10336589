import type { ErrorCode } from "../errors.ts";
import type { Plan } from "../limits/plans.ts";
import type { WindowName } from "../limits/windows.ts";

/**
 * What is told of one request. Never holds a key, a path with what the caller wrote into it, or the
 * client's address.
 */
export interface RequestRecord {
  readonly event: "request";
  /** The `X-Request-Id` of the answer. */
  readonly requestId: string;
  /** `null` where the request was not authenticated. */
  readonly keyId: string | null;
  readonly method: string;
  /** The pattern of the path; `/v1/*` and `/*` stand for paths that the service does not have. */
  readonly route: string;
  readonly status: number;
  /** The `code` of the Error body. */
  readonly code: ErrorCode | null;
  readonly plan: Plan | null;
  /** The window that `X-RateLimit-*` describe; without a key, the client address's. */
  readonly window: WindowName | null;
  readonly limit: number | null;
  readonly remaining: number | null;
  /** Until the headers of the answer were decided. On Cloudflare, clocks stand still between I/O. */
  readonly durationMs: number;
  /** Cloudflare's data centre that answered, as an IATA code. */
  readonly region: string | null;
  /** The client's country, as Cloudflare sees it (ISO 3166-1 alpha-2). */
  readonly country: string | null;
  /** Requests that this record stands for: more than 1 where a flood without a valid key is sampled. */
  readonly represents: number;
  /** What did not answer; `null` where the answer is exactly what it should be. */
  readonly degraded: Degradation | null;
}

/**
 * `limiter`: the insurance limiter decided, or the key's limiter is overloaded. `orders`, `keys`: the
 * answer is 503, and this is the database that was needed.
 */
export type Degradation = "limiter" | "orders" | "keys" | "limiter,orders";
