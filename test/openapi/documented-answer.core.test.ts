import { expect, test } from "vitest";
import { differencesFromDocument, type SeenAnswer } from "../../src/openapi/documented-answer.ts";
import { EXAMPLES } from "./example-answers.ts";

// The worker tests show that the document has no difference from what the service answers.

const list = EXAMPLES["GET /store/orders"]!["200"]![0]!;
const cancelled = EXAMPLES["DELETE /store/orders/{orderId}"]!["204"]![0]!;
const conflict = EXAMPLES["DELETE /store/orders/{orderId}"]!["409"]![0]!;
const quota = EXAMPLES["GET /quota"]!["200"]![0]!;
const CONFLICT = JSON.parse(conflict.body!);
const FULL = JSON.parse(quota.body!);
const WINDOW = { name: "minute", limit: 1e9, remaining: 0, resetsAt: null };
const BAN = { endsAt: "2026-11-20T08:31:00.000Z", number: 1 };
const MOST = { ...FULL, expiresAt: BAN.endsAt, windows: [WINDOW], ban: BAN };
const banned = { ...quota, body: JSON.stringify(MOST) };
const OTHERS = [{ name: "hour" }, { limit: 0 }, { limit: 1e9 + 1 }, { remaining: 1.5 }];
const OTHER_WINDOWS = [...OTHERS, { remaining: -1 }].map((other) => ({ ...WINDOW, ...other }));

function withHeader(answer: SeenAnswer, name: string, value: string | null): SeenAnswer {
  const headers = new Headers(answer.headers);
  if (value === null) headers.delete(name);
  else headers.set(name, value);
  return { ...answer, headers };
}

test.each<[difference: string, SeenAnswer]>([
  ["the document has no 304 here", { ...cancelled, status: 304 }],
  ["the document has no 409 here", { ...conflict, path: list.path }],
  ["the document has no 405 here", { ...conflict, status: 405, path: "/v1/pets" }],
  ["the document has no 405 here", { ...conflict, status: 405 }],
  ["the document has no 404 here", { ...conflict, status: 404, method: "PUT", path: list.path }],
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
  [conflict, ...lacking(CONFLICT), { ...CONFLICT, status: 404 }],
  [conflict, { ...CONFLICT, detail: "x" }, { ...CONFLICT, code: "not_found" }],
  [quota, ...lacking(FULL), { ...FULL, plan: "gold" }, { ...FULL, retryAfterSeconds: -1 }],
  [quota, { ...FULL, expiresAt: "2030-01-01" }],
  [banned, ...[...lacking(BAN), { ...BAN, number: 0 }].map((ban) => ({ ...MOST, ban }))],
  [banned, ...[...lacking(WINDOW), ...OTHER_WINDOWS].map((one) => ({ ...MOST, windows: [one] }))],
  [list, { orders: [] }, [{ id: "1" }], [{ id: 2 ** 64 }], [{ petId: null }], [{ status: "" }]],
  [list, [{ shipDate: "2026-11-20T08:30:00+01:00" }]],
])("a difference is found in a body with another field, type or value: %#", (answer, ...bodies) => {
  expect(differencesFromDocument(answer)).toStrictEqual([]);
  for (const body of bodies.map((one) => JSON.stringify(one))) {
    expect(differencesFromDocument({ ...answer, body }).length, body).toBeGreaterThan(0);
  }
});
