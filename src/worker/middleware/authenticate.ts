import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { rateLimitError, writeError } from "../errors.ts";
import type { AddressBudget } from "../limiter/address-budget.ts";
import { keyState } from "../../rules/keys/api-key.ts";
import type { FoundKey } from "../api-keys/key-by-hash.ts";
import type { ApiKeyDirectory } from "../api-keys/directory.ts";
import { hashSecret, hasSecretForm, isSecret } from "../../rules/keys/secret.ts";

type FailureReason = keyof typeof MESSAGES;

const CHALLENGE = 'Bearer realm="store-orders"';
const HOW_TO = "Send your API key as `Authorization: Bearer <API_KEY>`.";
const ASK_OPERATOR = "Ask the operator of the service for";

/** The message of the 401 response for each reason of a failed authentication. */
const MESSAGES = {
  missing: `No API key was sent. ${HOW_TO}`,
  other_scheme: `The Authorization header has another scheme than Bearer. ${HOW_TO}`,
  no_token: `The Authorization header holds no API key. ${HOW_TO}`,
  not_one_token: `The Authorization header must hold exactly one API key. ${HOW_TO}`,
  foreign_character: `The API key holds a character that no API key has, such as a quotation mark or an invisible space. ${HOW_TO}`,
  not_a_secret: `This is not an API key of this service: it may be mistyped or cut off. ${HOW_TO}`,
  unknown: `This API key is unknown. ${ASK_OPERATOR} a valid one.`,
  expired: `This API key is expired. ${ASK_OPERATOR} a new one.`,
  revoked: `This API key is revoked. ${ASK_OPERATOR} a new one.`,
  replaced:
    "This API key was replaced by a newer one. Use that one, or ask the operator of the service for it.",
} as const;

/** If no token was sent, `WWW-Authenticate` contains no `error` (RFC 6750, section 3.1). */
const WITHOUT_TOKEN: ReadonlySet<FailureReason> = new Set(["missing", "other_scheme", "no_token"]);

/**
 * Passes on requests with a valid API key. A request without one counts against the budget of its
 * client address. It receives a 401, or a 429 once the budget is used up (docs/limits.md, Failed
 * authentication).
 */
export function authenticate(directory: ApiKeyDirectory, addresses: AddressBudget) {
  return createMiddleware<AppEnv>(async function authenticateMiddleware(c, next) {
    const keyOrReason = await findValidKey(c, directory, addresses);
    if (typeof keyOrReason !== "string") {
      c.set("apiKey", keyOrReason);
      return next();
    }
    const reason = keyOrReason;
    const decision = addresses.countFailure(c.req.raw);
    c.set("quota", decision);
    if (!decision.admitted) {
      const refusal = "Too many requests without a valid API key from your address.";
      return writeError(c, rateLimitError(decision, refusal));
    }
    const challenge = WITHOUT_TOKEN.has(reason) ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`;
    const headers = { "WWW-Authenticate": challenge };
    return writeError(c, { code: "unauthorized", message: MESSAGES[reason], headers });
  });
}

async function findValidKey(
  c: Context<AppEnv>,
  directory: ApiKeyDirectory,
  addresses: AddressBudget,
): Promise<FoundKey | FailureReason> {
  const credentials = parseCredentials(c.req.header("Authorization") ?? "");
  if (typeof credentials === "string") return credentials;
  const { secret } = credentials;
  const hash = hashSecret(secret);
  // The checksum saves a query for a mistyped secret. A remembered hash needs no check, because its
  // secret passed the check before.
  if (!directory.remembers(hash) && !isSecret(secret)) return "not_a_secret";
  const key = await directory.find(c.env.KEYS, hash, {
    isSuspect: () => addresses.peek(c.req.raw).retryAtMs !== null,
    waitUntil: (promise) => c.executionCtx.waitUntil(promise),
  });
  if (key === null) return "unknown";
  const nowMs = Date.now();
  const state = keyState(key, nowMs);
  if (state !== "active") return state;
  return key.hashEndsAt !== null && key.hashEndsAt.getTime() <= nowMs ? "replaced" : key;
}

const BEARER = /^bearer(?:(?:[ \t]+|(?=,))(?<token>.*))?$/is;

/**
 * The syntax of a bearer token (RFC 6750, section 2.1). If a client sends two `Authorization`
 * headers, they arrive joined by a comma, which is not allowed in a token. Only an empty first one
 * leaves no trace.
 */
const B64_TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/**
 * Parses the value of the `Authorization` header (docs/api.md, Authentication). Checks the form of
 * the secret but not its checksum, because remembered keys need no such check.
 */
export function parseCredentials(header: string): { readonly secret: string } | FailureReason {
  // `trim` would also cut characters that are no white space in HTTP.
  const value = header.replace(/^[ \t]+/, "").replace(/[ \t]+$/, "");
  if (value === "") return "missing";
  const match = BEARER.exec(value);
  if (match === null) return "other_scheme";
  const token = match.groups?.["token"] ?? "";
  if (token === "") return "no_token";
  if (hasSecretForm(token)) return { secret: token };
  if (/[ \t,]/.test(token)) return "not_one_token";
  return B64_TOKEN.test(token) ? "not_a_secret" : "foreign_character";
}
