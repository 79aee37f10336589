import { hasSecretForm } from "./secret.ts";

/**
 * The result of parsing an `Authorization` header: a text in the form of a secret, or the reason
 * why there is none.
 */
type Credentials =
  | { readonly ok: true; readonly secret: string }
  | { readonly ok: false; readonly reason: CredentialsFault };

type CredentialsFault = "missing" | "other_scheme" | "no_token" | "not_one_token" | "not_a_secret";

const BEARER = /^bearer(?: +(?<token>.*))?$/i;
/**
 * The syntax of a bearer token (RFC 6750, section 2.1). If a client sends two `Authorization`
 * headers, they arrive joined by a comma, which is not allowed in a token.
 */
const B64_TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/**
 * Parses the value of the `Authorization` header (docs/api.md, Authentication). Checks only the
 * form of the secret. Checking its checksum would cost a hash computation, which is unnecessary for
 * a remembered key.
 */
export function parseCredentials(header: string | undefined): Credentials {
  if (header === undefined || header.trim() === "") return { ok: false, reason: "missing" };
  const match = BEARER.exec(header.trim());
  if (match === null) return { ok: false, reason: "other_scheme" };
  const token = match.groups?.["token"]?.trim() ?? "";
  if (token === "") return { ok: false, reason: "no_token" };
  if (hasSecretForm(token)) return { ok: true, secret: token };
  return { ok: false, reason: B64_TOKEN.test(token) ? "not_a_secret" : "not_one_token" };
}
