import { hasSecretForm } from "./secret.ts";

/** The reason why an `Authorization` header holds no text in the form of a secret. */
type CredentialsFault = "missing" | "other_scheme" | "no_token" | "not_one_token" | "not_a_secret";

const BEARER = /^bearer(?: +(?<token>.*))?$/i;
/**
 * The syntax of a bearer token (RFC 6750, section 2.1). If a client sends two `Authorization`
 * headers, they arrive joined by a comma, which is not allowed in a token.
 */
const B64_TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/**
 * Parses the value of the `Authorization` header (docs/api.md, Authentication). Checks only the form
 * of the secret: the checksum of a remembered key need not be computed.
 */
export function parseCredentials(
  header: string | undefined,
): { readonly secret: string } | CredentialsFault {
  if (header === undefined || header.trim() === "") return "missing";
  const match = BEARER.exec(header.trim());
  if (match === null) return "other_scheme";
  const token = match.groups?.["token"]?.trim() ?? "";
  if (token === "") return "no_token";
  if (hasSecretForm(token)) return { secret: token };
  return B64_TOKEN.test(token) ? "not_a_secret" : "not_one_token";
}
