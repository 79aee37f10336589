import { cors } from "hono/cors";
import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { QUOTA_HEADERS } from "../../rules/limits/headers.ts";

const EXPOSED_HEADERS = [
  ...QUOTA_HEADERS,
  "Allow",
  "ETag",
  "Link",
  "WWW-Authenticate",
  "X-Request-Id",
  "Deprecation",
  "Sunset",
  "Strict-Transport-Security",
];

/**
 * Allows scripts of the listed origins to call the service from a browser (docs/api.md, Browsers).
 * A request from any other origin is treated as if it had no `Origin` header.
 */
export function crossOrigin(origins: ReadonlySet<string>) {
  const allow = cors({
    origin: (origin) => origin,
    allowMethods: ["GET", "HEAD", "DELETE"],
    allowHeaders: ["Authorization", "If-Match", "If-None-Match", "X-Request-Id"],
    exposeHeaders: EXPOSED_HEADERS,
    maxAge: 86_400,
  });
  return createMiddleware<AppEnv>(async function crossOriginMiddleware(c, next) {
    const origin = c.req.header("Origin");
    const isOptions = c.req.raw.method === "OPTIONS";
    // Without `Access-Control-Request-Method`, OPTIONS is no preflight (Fetch Standard, CORS).
    const isAnswered = !isOptions || c.req.raw.headers.has("Access-Control-Request-Method");
    if (origin === undefined || !origins.has(origin) || !isAnswered) return next();
    // First the response, because a refusal replaces an earlier one with its headers.
    if (!isOptions) await next();
    return allow(c, async () => undefined);
  });
}
