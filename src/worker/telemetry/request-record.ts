import type { ErrorCode } from "../errors.ts";
import type { Plan } from "../limits/plans.ts";
import type { WindowName } from "../limits/windows.ts";

/**
 * The log fields of one request. Never contains a secret, the path as the caller wrote it, or the
 * client's address.
 */
export interface RequestRecord {
  readonly event: "request";
  /** The `X-Request-Id` of the answer. */
  readonly requestId: string;
  /** `null` if the request was not authenticated. */
  readonly keyId: string | null;
  readonly method: string;
  /** The pattern of the path; `/v1/*` and `/*` stand for unknown paths. */
  readonly route: string;
  readonly status: number;
  /** The `code` of an error answer. */
  readonly code: ErrorCode | null;
  readonly plan: Plan | null;
  /** The window that the `X-RateLimit-*` headers describe. */
  readonly window: WindowName | null;
  readonly limit: number | null;
  readonly remaining: number | null;
  /** The time until the answer has headers. On Cloudflare the clock advances only with I/O. */
  readonly durationMs: number;
  /** Cloudflare's data centre that answered, as an IATA code. */
  readonly region: string | null;
  /** The client's country, as Cloudflare sees it (ISO 3166-1 alpha-2). */
  readonly country: string | null;
  /** Requests that this record stands for: more than 1 only if requests are sampled. */
  readonly represents: number;
  /** The parts that did not answer; `null` if all did. */
  readonly degraded: Degradation | null;
}

/**
 * `limiter`: the fallback limiter decided, or the key's limiter is overloaded. `orders`, `keys`: the
 * answer is 503, and the request needed this database.
 */
export type Degradation = "limiter" | "orders" | "keys" | "limiter,orders";
