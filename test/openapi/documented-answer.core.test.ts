import { expect, test } from "vitest";
import { differencesFromDocument, type SeenAnswer } from "../../src/openapi/documented-answer.ts";

// The worker tests show that the document has no difference from what the service answers.

const QUOTA = {
  "X-RateLimit-Limit": "60",
  "X-RateLimit-Remaining": "59",
  "X-RateLimit-Reset": "1795247754",
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: '"minute";r=59;t=60, "day";r=999;t=86400',
  "X-Request-Id": "test-1",
  Link: '</openapi.json>; rel="service-desc", </>; rel="service-doc"',
};
const JSON_TYPE = { "Content-Type": "application/json" };
const PATH = "/v1/store/orders";
const CONFLICT = { code: "order_already_shipped", message: "What to do.", status: 409 };
const ORDER = { id: 1, quantity: 3, shipDate: "2026-11-20T08:30:00.000Z", complete: true };

const LIST_HEADERS = { ETag: '"0f"', "Cache-Control": "private, no-cache" };
const list = seen("GET", PATH, 200, [ORDER, { id: 1 }], LIST_HEADERS);
const WINDOW = { name: "minute", limit: 60, remaining: 0, resetsAt: "2026-11-20T08:31:00.000Z" };
const FULL = {
  keyId: "key_abcdefghijklmnop",
  plan: "free",
  expiresAt: null,
  windows: [WINDOW, { ...WINDOW, name: "day", limit: 1e9, resetsAt: null }],
  ban: null,
  retryAfterSeconds: 60,
};
const OTHER_WINDOWS = [{ name: "hour" }, { limit: 0 }, { limit: 1e9 + 1 }, { remaining: 1.5 }];
const BAN = { endsAt: WINDOW.resetsAt, number: 1 };
const MOST = { ...FULL, expiresAt: WINDOW.resetsAt, ban: BAN };
const banned = seen("GET", "/v1/quota", 200, MOST, { "Cache-Control": "no-store" });
const quota = seen("GET", "/v1/quota", 200, FULL, { "Cache-Control": "no-store" });
const cancelled = { ...seen("DELETE", `${PATH}/1`, 204, undefined), body: "" };
const conflict = seen("DELETE", `${PATH}/1`, 409, CONFLICT);

function seen(
  method: string,
  path: string,
  status: number,
  body: unknown,
  own: Record<string, string> = {},
): SeenAnswer {
  const headers = new Headers({ ...QUOTA, ...own, ...(body === undefined ? {} : JSON_TYPE) });
  return { method, path, status, headers, body: JSON.stringify(body) };
}

function withHeader(answer: SeenAnswer, name: string, value: string | null): SeenAnswer {
  const headers = new Headers(answer.headers);
  if (value === null) headers.delete(name);
  else headers.set(name, value);
  return { ...answer, headers };
}

test.each<[difference: string, SeenAnswer]>([
  ["the document has no 304 here", { ...cancelled, status: 304 }],
  ["the document has no 409 here", { ...conflict, path: PATH }],
  ["the document has no 405 here", { ...conflict, status: 405, path: "/v1/pets" }],
  ["the document has no 404 here", { ...conflict, status: 404, method: "PUT", path: PATH }],
  ["the header Link is missing", withHeader(cancelled, "Link", null)],
  ["the header ETag is missing", withHeader(list, "ETag", null)],
  ["the header Cache-Control is missing", withHeader(quota, "Cache-Control", null)],
  ...[
    ["X-RateLimit-Limit", "0"],
    ["X-RateLimit-Remaining", "-1"],
    ["X-RateLimit-Reset", "0"],
    ["X-Request-Id", ""],
    ["RateLimit-Policy", '"minute";q=60;w=61, "day";q=1000;w=86400'],
    ["Link", '</openapi.json>; rel="service-desc"'],
    ["Sunset", "2028-07-01"],
    ["Deprecation", "1830297600"],
  ].map(([name = "", value = ""]): [string, SeenAnswer] => {
    return [`the header ${name} is ${JSON.stringify(value)}`, withHeader(list, name, value)];
  }),
  ['the header RateLimit is "r=1"', withHeader(conflict, "RateLimit", "r=1")],
  ["the document has no header retry-after here", withHeader(cancelled, "Retry-After", "1")],
  ["the document has no body here", { ...cancelled, body: "{}" }],
  ["an answer to HEAD has a body", { ...list, method: "HEAD" }],
  ["the body is not JSON", { ...list, body: '[{"id":1}' }],
  ["the body is text/plain", withHeader(list, "Content-Type", "text/plain")],
])("a difference is found: %s", (difference, answer) => {
  expect(differencesFromDocument(answer)).toStrictEqual([difference]);
});

test("Cloudflare may add headers, but not those that the document has for other responses", () => {
  const seenAtEdge = withHeader(withHeader(list, "Server-Timing", "1"), "Retry-After", "1");
  const differences = differencesFromDocument(seenAtEdge, { isBehindEdge: true });
  expect(differences).toStrictEqual(["the document has no header retry-after here"]);
});

/** Returns an object once without each of its fields. */
const lacking = <T extends object>(whole: T): Partial<T>[] =>
  Object.keys(whole).map((name) => ({ ...whole, [name]: undefined }));

test.each<[answer: SeenAnswer, ...bodies: object[]]>([
  [conflict, ...lacking(CONFLICT)],
  [quota, ...lacking(FULL), ...lacking(WINDOW).map((window) => ({ ...FULL, windows: [window] }))],
  [banned, ...[...lacking(BAN), { ...BAN, number: 0 }].map((ban) => ({ ...FULL, ban }))],
  [quota, ...OTHER_WINDOWS.map((window) => ({ ...FULL, windows: [{ ...WINDOW, ...window }] }))],
  [quota, { ...FULL, retryAfterSeconds: -1 }, { ...FULL, expiresAt: "2030-01-01" }],
  [list, { orders: [] }, [{ id: "1" }], [{ id: 2 ** 64 }], [{ petId: null }], [{ status: "" }]],
  [list, [{ shipDate: "2026-11-20T08:30:00+01:00" }]],
  [quota, { ...FULL, windows: [{ ...WINDOW, remaining: -1 }] }, { ...FULL, plan: "gold" }],
  [conflict, { ...CONFLICT, detail: "x" }, { ...CONFLICT, code: "not_found" }],
  [conflict, { ...CONFLICT, status: 404 }],
])("a difference is found in a body with another field, type or value: %#", (answer, ...bodies) => {
  expect(differencesFromDocument(answer)).toStrictEqual([]);
  for (const body of bodies.map((one) => JSON.stringify(one))) {
    expect(differencesFromDocument({ ...answer, body }).length, body).toBeGreaterThan(0);
  }
});
