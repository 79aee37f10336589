import type { CallOptions } from "./options.ts";

/** The headers that the client sets itself, each with the option that sets its value. */
const OWN_HEADERS = {
  Accept: "no option",
  Authorization: "apiKey",
  "If-None-Match": "ifNoneMatch",
  "X-Request-Id": "requestId",
};

const REQUEST_ID = /^[\w=-]{1,255}$/;
const ENTITY_TAG = /^(?:W\/)?"[\x21\x23-\x7e]*"$/;

/**
 * Returns the headers that every request of a call sends.
 *
 * @throws {TypeError} if an option is invalid; the message names the option and never contains the
 *   API key.
 */
export function requestHeaders(
  apiKey: string,
  { requestId, headers = {} }: CallOptions,
  ifNoneMatch: string | null,
): Headers {
  const sent = new Headers(headers);
  for (const [name, option] of Object.entries(OWN_HEADERS)) {
    if (!sent.has(name)) continue;
    throw new TypeError(`headers: the client sets ${name} itself; ${option} decides it`);
  }
  sent.set("Accept", "application/json");
  sent.set("Authorization", `Bearer ${apiKey}`);
  if (requestId !== undefined) {
    if (!REQUEST_ID.test(requestId)) {
      throw new TypeError("requestId: expected 1 to 255 letters, digits, _, - or =");
    }
    sent.set("X-Request-Id", requestId);
  }
  if (ifNoneMatch !== null) {
    if (!ENTITY_TAG.test(ifNoneMatch)) {
      throw new TypeError('ifNoneMatch: expected an entity tag such as "1a2b", with its quotes');
    }
    sent.set("If-None-Match", ifNoneMatch);
  }
  return sent;
}
