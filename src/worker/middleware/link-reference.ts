import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";

/** The `Link` header value for the OpenAPI document and the reference page (RFC 8631). */
const REFERENCE = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';

/**
 * Sets the `Link` header of every response. An error also links to the section of the reference
 * page about its code (docs/api.md, Requests).
 */
export const linkReference = createMiddleware<AppEnv>(
  async function linkReferenceMiddleware(c, next) {
    await next();
    const code = c.get("errorCode");
    const link = code === undefined ? REFERENCE : `${REFERENCE}, </#${code}>; rel="help"`;
    c.res.headers.set("Link", link);
  },
);
