import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../../rules/config.ts";
import { mayHoldSecret } from "../../rules/keys/secret.ts";
import { quotaHeaders } from "../../rules/limits/headers.ts";
import type { AddressBudget } from "../limiter/address-budget.ts";
import { isHttps } from "./require-https.ts";

/** The request ids to accept from callers: these are safe in log lines and headers. */
const ACCEPTED_ID = /^[\w\-=]{1,255}$/;

/** The `Link` header value for the OpenAPI document and the reference page (RFC 8631). */
const REFERENCE = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';

/**
 * Gives each request an id, and sets the headers that every response has (docs/api.md, Requests):
 * - `X-Request-Id`: the caller's id if it is acceptable and holds no API key, otherwise a new UUID. Hono's `requestId`
 *   middleware would set the header before the handler runs, which allocates another `Headers`.
 * - `Link`: an error response also links to the section of the reference page about its code.
 * - `Strict-Transport-Security` (RFC 6797): only over HTTPS, because browsers ignore it elsewhere.
 * - `X-Version`: only for a caller that sends the id of the deployed version. So a deployment knows
 *   which version responds, but nobody else can learn the id.
 */
export const commonHeaders = createMiddleware<AppEnv>(
  async function commonHeadersMiddleware(c, next) {
    const sent = c.req.header("X-Request-Id") ?? "";
    const requestId = ACCEPTED_ID.test(sent) && !mayHoldSecret(sent) ? sent : crypto.randomUUID();
    c.set("requestId", requestId);
    await next();
    const code = c.get("errorCode");
    const { headers } = c.res;
    headers.set("X-Request-Id", requestId);
    if (isHttps(c.req.raw)) headers.set("Strict-Transport-Security", "max-age=31536000");
    const version = c.req.header("X-Version");
    if (version !== undefined && version === c.env.VERSION.id) headers.set("X-Version", version);
    headers.set("Link", code === undefined ? REFERENCE : `${REFERENCE}, </#${code}>; rel="help"`);
  },
);

/**
 * Sets the headers of every response under `/v1`, including errors:
 * - The rate-limit headers (docs/limits.md, Headers). If neither the limiter nor a failed
 *   authentication has set a quota, they show the budget of the client's address.
 * - `Deprecation` (RFC 9745) and `Sunset` (RFC 8594), each only if the operator has set its date.
 */
export function v1Headers(addresses: AddressBudget, { lifecycle }: Config) {
  const { deprecatedAt, sunsetAt } = lifecycle;
  return createMiddleware<AppEnv>(async function v1HeadersMiddleware(c, next) {
    await next();
    const quota = c.get("quota") ?? addresses.peek(c.req.raw);
    c.set("quota", quota);
    const { headers } = c.res;
    for (const [name, value] of Object.entries(quotaHeaders(quota))) headers.set(name, value);
    if (deprecatedAt) headers.set("Deprecation", `@${Math.floor(deprecatedAt.getTime() / 1_000)}`);
    if (sunsetAt) headers.set("Sunset", sunsetAt.toUTCString());
  });
}
