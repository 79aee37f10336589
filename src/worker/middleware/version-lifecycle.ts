import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { VersionLifecycle } from "../config.ts";

/** The headers that `announceLifecycle` sets, for `Access-Control-Expose-Headers`. */
export const LIFECYCLE_HEADERS = ["Deprecation", "Sunset"] as const;

/**
 * Announces the end of this API version in every response: `Deprecation` (RFC 9745) and `Sunset`
 * (RFC 8594). Each header is sent only if the operator has set its date.
 */
export function announceLifecycle({ deprecatedAt, sunsetAt }: VersionLifecycle) {
  return createMiddleware<AppEnv>(async function announceLifecycleMiddleware(c, next) {
    await next();
    const { headers } = c.res;
    if (deprecatedAt) headers.set("Deprecation", `@${Math.floor(deprecatedAt.getTime() / 1_000)}`);
    if (sunsetAt) headers.set("Sunset", sunsetAt.toUTCString());
  });
}
