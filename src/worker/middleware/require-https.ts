import { createMiddleware } from "hono/factory";
import QuickLRU from "quick-lru";
import type { ApiKeyDirectory } from "../api-keys/directory.ts";
import type { AppEnv } from "../app-env.ts";
import { type Config, REMEMBERED_KEYS } from "../../rules/config.ts";
import { writeError } from "../errors.ts";
import { logEvent } from "../log.ts";
import { hashSecret } from "../../rules/keys/secret.ts";
import { parseCredentials } from "./authenticate.ts";

/** The hosts of this machine (RFC 6761, section 6.3), to which no network carries a request. */
const LOOPBACK = /^(?:(?:.+\.)?localhost\.?|127(?:\.\d+){3}|\[::1\])$/;

/** How often the log names a key that is sent in the clear. */
const LOG_EVERY_MS = 60_000;

/**
 * Refuses requests over plain HTTP, the same with and without a valid key (docs/api.md, HTTPS):
 * whoever listens on the way reads a key that is sent in the clear. Counts and looks up nothing. Logs
 * the id of a key that the isolate remembers, so that the operator can rotate it.
 */
export function requireHttps({ allowsHttp }: Config, directory: ApiKeyDirectory) {
  const logged = new QuickLRU<string, true>({ maxSize: REMEMBERED_KEYS, maxAge: LOG_EVERY_MS });
  return createMiddleware<AppEnv>(async function requireHttpsMiddleware(c, next) {
    if (allowsHttp || isHttps(c.req.raw) || LOOPBACK.test(new URL(c.req.url).hostname)) {
      return next();
    }
    const credentials = parseCredentials(c.req.header("Authorization") ?? "");
    const key =
      typeof credentials === "string" ? null : directory.recall(hashSecret(credentials.secret));
    if (key !== null && !logged.has(key.id)) {
      logged.set(key.id, true);
      logEvent({ event: "key_sent_in_clear", requestId: c.get("requestId"), keyId: key.id });
    }
    const message =
      "The request came over plain HTTP and was not performed. Use https://, and ask the operator of the service for a new API key if you sent yours.";
    return writeError(c, { code: "https_required", message });
  });
}

/** Returns whether the client used HTTPS, by the URL and by Cloudflare's header `CF-Visitor`. */
export function isHttps({ url, headers }: Request): boolean {
  return url.startsWith("https:") && !/"scheme"\s*:\s*"http"/.test(headers.get("CF-Visitor") ?? "");
}
