import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { isPreflight } from "./cross-origin.ts";
import { writeError } from "../errors.ts";
import type { AddressBudget } from "../rate-limit/address-budget.ts";
import { clientAddress } from "./client-address.ts";
import { rateLimitError } from "./rate-limit-error.ts";
import type { ApiKey, FoundKey } from "../api-keys/api-key.ts";
import { keyState, limitedKey } from "../api-keys/api-key.ts";
import { type Credentials, NO_SUCH_KEY, parseCredentials } from "../api-keys/credentials.ts";
import type { ApiKeyDirectory } from "../api-keys/directory.ts";
import { hashSecret, isSecret } from "../api-keys/secret.ts";

const CHALLENGE = 'Bearer realm="store-orders"';
const HOW_TO = "Send your API key as `Authorization: Bearer <API_KEY>`.";

const USE_NEWER = "Use that one, or ask the operator of the service for it.";

/** Why a request is not authenticated. */
interface Failure {
  readonly message: string;
  /** Whether a bearer token was sent (RFC 6750, section 3.1). */
  readonly isBearer: boolean;
}

/**
 * Lets a request pass that carries a valid API key. Any other is counted against the budget of its
 * address and answered 401, or 429 once that budget is used up. A preflight carries no key, by the
 * Fetch Standard, and is counted nowhere.
 */
export function authenticate(directory: ApiKeyDirectory, addresses: AddressBudget) {
  return createMiddleware<AppEnv>(async function authenticateMiddleware(c, next) {
    const credentials = parseCredentials(c.req.header("Authorization"));
    const result = await identify(credentials, directory, (hash) =>
      directory.find(c.env.KEYS, hash, {
        isSuspect: () => addresses.peek(clientAddress(c.req.raw)).retryAtMs !== null,
        waitUntil: (promise) => c.executionCtx.waitUntil(promise),
      }),
    );
    if ("id" in result) {
      c.set("apiKey", result);
      c.set("limitedKey", limitedKey(result));
      return next();
    }
    if (credentials.kind !== "missing" || !isPreflight(c.req.raw)) {
      const decision = addresses.admit(clientAddress(c.req.raw));
      c.set("quota", decision);
      if (!decision.admitted) {
        const reason = "Too many requests without a valid API key from your address.";
        return writeError(c, rateLimitError(decision, reason));
      }
    }
    const challenge = result.isBearer ? `${CHALLENGE}, error="invalid_token"` : CHALLENGE;
    return writeError(c, {
      code: "unauthorized",
      message: result.message,
      headers: { "WWW-Authenticate": challenge },
    });
  });
}

async function identify(
  credentials: Credentials,
  directory: ApiKeyDirectory,
  find: (hash: string) => Promise<FoundKey | null> | FoundKey | null,
): Promise<ApiKey | Failure> {
  switch (credentials.kind) {
    case "missing":
      return { message: `No API key was sent. ${HOW_TO}`, isBearer: false };
    case "malformed":
      return { message: `${credentials.message} ${HOW_TO}`, isBearer: credentials.isBearer };
    case "key": {
      const hash = hashSecret(credentials.key);
      // The checksum spares the database; a key that is remembered does not need it.
      if (!directory.remembers(hash) && !isSecret(credentials.key)) {
        return { message: `${NO_SUCH_KEY} ${HOW_TO}`, isBearer: true };
      }
      const apiKey = await find(hash);
      if (apiKey === null) {
        return {
          message: "This API key is unknown. Ask the operator of the service for a valid one.",
          isBearer: true,
        };
      }
      const nowMs = Date.now();
      const state = keyState(apiKey, nowMs);
      if (state !== "active") {
        return {
          message: `This API key is ${state}. Ask the operator of the service for a new one.`,
          isBearer: true,
        };
      }
      if (apiKey.hashEndsAt !== null && apiKey.hashEndsAt.getTime() <= nowMs) {
        return {
          message: `This API key was replaced by a newer one. ${USE_NEWER}`,
          isBearer: true,
        };
      }
      return apiKey;
    }
  }
}
