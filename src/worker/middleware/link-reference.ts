import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";

/** The OpenAPI document and the reference page (RFC 8631). */
const REFERENCE = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';

/**
 * Links every answer to the reference, and an error also to the section of its code
 * (docs/api.md, Requests).
 */
export const linkReference = createMiddleware<AppEnv>(
  async function linkReferenceMiddleware(c, next) {
    await next();
    const code = c.get("errorCode");
    const link = code === undefined ? REFERENCE : `${REFERENCE}, </#${code}>; rel="help"`;
    c.res.headers.set("Link", link);
  },
);
