import type { Context } from "hono";
import { routePath } from "hono/route";
import type { AppEnv } from "../app-env.ts";
import type { ErrorCode } from "../errors.ts";
import { describedWindow } from "../rate-limit/headers.ts";
import type { Plan } from "../rate-limit/plans.ts";
import type { WindowName } from "../rate-limit/windows.ts";

/** Index of the handler that belongs to the path itself; those before it are middleware. */
const LAST = -1;

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
  /** What did not answer; `null` where the answer is exactly what it should be. */
  readonly degraded: Degradation | null;
}

/** `limiter`: the insurance limiter decided. `database`: the answer is 503. */
export type Degradation = "limiter" | "database" | "limiter,database";

/** The record of a request whose answer is decided. @param startedMs Unix time in milliseconds. */
export function recordRequest(c: Context<AppEnv>, startedMs: number): RequestRecord {
  // Set one after another on a request's way, which may end early.
  const { requestId, apiKey, quota, errorCode, limiter }: Partial<AppEnv["Variables"]> = c.var;
  const described = quota === undefined ? null : describedWindow(quota);
  const cf = c.req.raw.cf;
  return {
    event: "request",
    requestId: requestId ?? "",
    keyId: apiKey?.id ?? null,
    method: c.req.raw.method,
    route: routePath(c, LAST).replace(/:(\w+)/g, "{$1}"),
    status: c.res.status,
    code: errorCode ?? null,
    plan: apiKey?.plan ?? null,
    window: described?.name ?? null,
    limit: described?.limit ?? null,
    remaining: described?.remaining ?? null,
    durationMs: Math.max(0, Date.now() - startedMs),
    region: textOrNull(cf?.colo),
    country: textOrNull(cf?.country),
    degraded: degradation(limiter?.isInsured ?? false, errorCode === "service_unavailable"),
  };
}

function degradation(isInsured: boolean, isWithoutDatabase: boolean): Degradation | null {
  if (isInsured) return isWithoutDatabase ? "limiter,database" : "limiter";
  return isWithoutDatabase ? "database" : null;
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
