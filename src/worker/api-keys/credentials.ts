import { hasSecretForm } from "./secret.ts";

/** What an `Authorization` header holds. */
export type Credentials =
  | { readonly kind: "missing" }
  /** Not the form `Bearer <key>`, or a token that no API key can be. */
  | { readonly kind: "malformed"; readonly isBearer: boolean; readonly message: string }
  /** A token of the form of a key, whose checksum is still to be looked at. */
  | { readonly kind: "key"; readonly key: string };

/** Of a token that cannot be an API key of ours. */
export const NO_SUCH_KEY = "This is not an API key of this service: it may be mistyped or cut off.";

const BEARER = /^bearer(?: +(?<token>.*))?$/i;
/** RFC 6750, section 2.1. Two headers reach us as one with a comma, which no token has. */
const B64_TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/** Reads the value of the `Authorization` header (contract, section 3). */
export function parseCredentials(header: string | undefined): Credentials {
  if (header === undefined || header.trim() === "") return { kind: "missing" };
  const match = BEARER.exec(header.trim());
  if (match === null) {
    return {
      kind: "malformed",
      isBearer: false,
      message: "The Authorization header has another scheme than Bearer.",
    };
  }
  const token = match.groups?.["token"]?.trim() ?? "";
  if (token === "") {
    return {
      kind: "malformed",
      isBearer: false,
      message: "The Authorization header holds no API key.",
    };
  }
  if (!B64_TOKEN.test(token)) {
    return {
      kind: "malformed",
      isBearer: true,
      message: "The Authorization header must hold exactly one API key.",
    };
  }
  if (!hasSecretForm(token)) {
    return {
      kind: "malformed",
      isBearer: true,
      message: NO_SUCH_KEY,
    };
  }
  return { kind: "key", key: token };
}
