import { expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { differencesFromDocument, type SeenAnswer } from "../../src/openapi/documented-answer.ts";
import { readDocument } from "../../src/openapi/read-document.ts";

// The worker tests show that the document has no difference from what the service answers.

const { operations } = readDocument(JSON.parse(openApiDocument()));

/** The answers in the document with the examples of their headers and bodies. */
const EXAMPLES = operations.flatMap(({ method, path, responses }) =>
  Object.entries(responses).flatMap(([status, { headers, content }]) => {
    const request = { method: status === "405" ? "PUT" : method, path: `/v1${path}` };
    const sent = new Headers(content && { "Content-Type": "application/json" });
    for (const [name, { example }] of Object.entries(headers)) sent.set(name, String(example));
    const { example, examples } = content?.["application/json"] ?? {};
    return Object.values(examples ?? { only: { value: example } }).map(({ value }): SeenAnswer => {
      const body = JSON.stringify(value) ?? "";
      return { ...request, status: Number(status), headers: sent, body };
    });
  }),
);

const exampleOf = (status: number, path: string) =>
  EXAMPLES.find((one) => one.status === status && one.path.endsWith(path))!;
const list = exampleOf(200, "/orders");
const cancelled = exampleOf(204, "/{orderId}");
const conflict = exampleOf(409, "/{orderId}");
const quota = exampleOf(200, "/quota");
const CONFLICT = JSON.parse(conflict.body!);
const FULL = JSON.parse(quota.body!);
const WINDOW = { name: "minute", limit: 1e9, remaining: 0, resetsAt: null };
const BAN = { endsAt: "2026-11-20T08:31:00.000Z", number: 1 };
const MOST = { ...FULL, expiresAt: BAN.endsAt, windows: [WINDOW], ban: BAN };
const banned = { ...quota, body: JSON.stringify(MOST) };

function withHeader(answer: SeenAnswer, name: string, value: string | null): SeenAnswer {
  const headers = new Headers(answer.headers);
  if (value === null) headers.delete(name);
  else headers.set(name, value);
  return { ...answer, headers };
}

test("each operation has these answers and allows these methods, and its examples fit", () => {
  for (const answer of EXAMPLES) {
    expect(differencesFromDocument(answer), `${answer.path} ${answer.status}`).toStrictEqual([]);
  }
  const answers = operations.map(({ method, path, responses }) => {
    const allowed = responses["405"]!.headers["Allow"]!.example;
    return [`${method} ${path}`, `${Object.keys(responses).join(" ")}; ${String(allowed)}`];
  });
  expect(Object.fromEntries(answers)).toStrictEqual({
    "GET /store/orders": "200 304 401 403 405 412 429 500 503; GET, HEAD",
    "DELETE /store/orders/{orderId}": "204 401 403 404 405 409 412 429 500 503; DELETE",
    "GET /quota": "200 401 403 405 412 429 500 503; GET, HEAD",
  });
});

test.each<[difference: string, SeenAnswer]>([
  ["the document has no 304 here", { ...cancelled, status: 304 }],
  ["the document has no 405 here", { ...conflict, status: 405, path: "/v1/pets" }],
  ["the document has no 405 here", { ...conflict, status: 405 }],
  ["the document has no 404 here", { ...conflict, status: 404, method: "PUT", path: list.path }],
  ["the header Link is missing", withHeader(cancelled, "Link", null)],
  ["the header ETag is missing", withHeader(list, "ETag", null)],
  ['the header X-RateLimit-Remaining is "-1"', withHeader(list, "X-RateLimit-Remaining", "-1")],
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
  [banned, ...[...lacking(BAN), { ...BAN, number: 0 }].map((ban) => ({ ...MOST, ban }))],
  [
    banned,
    ...[...lacking(WINDOW), { ...WINDOW, limit: 0 }].map((one) => ({ ...MOST, windows: [one] })),
  ],
  [list, { orders: [] }, [{ id: "1" }], [{ id: 2 ** 64 }], [{ petId: null }], [{ status: "" }]],
])("a difference is found in a body with another field, type or value: %#", (answer, ...bodies) => {
  expect(differencesFromDocument(answer)).toStrictEqual([]);
  for (const body of bodies.map((one) => JSON.stringify(one))) {
    expect(differencesFromDocument({ ...answer, body }).length, body).toBeGreaterThan(0);
  }
});
