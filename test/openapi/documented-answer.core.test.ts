import { describe, expect, test } from "vitest";
import { differencesFromDocument, type SeenAnswer } from "../../src/openapi/documented-answer.ts";

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
const LIST_HEADERS = { ...QUOTA, ETag: '"0f"', "Cache-Control": "private, no-cache" };
const LIST = "/v1/store/orders";
const ORDER = `${LIST}/1`;

const GOOD = {
  list: answer("GET", LIST, 200, { ...LIST_HEADERS, ...JSON_TYPE }, [
    { id: 1, petId: 2, quantity: 3, shipDate: "2026-11-20T08:30:00.000Z", complete: true },
    { id: 1 },
  ]),
  unchanged: answer("GET", LIST, 304, LIST_HEADERS),
  cancelled: answer("DELETE", ORDER, 204, QUOTA),
  conflict: error("DELETE", ORDER, 409, "order_already_shipped"),
  refused: error("GET", LIST, 429, "api_key_banned", { "Retry-After": "60" }),
  precondition: error("DELETE", ORDER, 412, "precondition_failed"),
  otherMethod: error("PUT", LIST, 405, "method_not_allowed", { Allow: "GET, HEAD" }),
  otherPath: error("GET", "/v1/pets", 404, "not_found"),
  preflight: answer("OPTIONS", "/v1/pets", 204, { "Access-Control-Allow-Methods": "GET" }),
};

function answer(
  method: string,
  path: string,
  status: number,
  headers: Record<string, string>,
  body?: unknown,
): SeenAnswer {
  const text = body === undefined ? "" : JSON.stringify(body);
  return { method, path, status, headers: new Headers(headers), body: text };
}

function error(method: string, path: string, status: number, code: string, headers: object = {}) {
  const body = { code, message: "What to do.", status };
  return answer(method, path, status, { ...QUOTA, ...JSON_TYPE, ...headers }, body);
}

function withHeader(seen: SeenAnswer, name: string, value: string | null): SeenAnswer {
  const headers = new Headers(seen.headers);
  if (value === null) headers.delete(name);
  else headers.set(name, value);
  return { ...seen, headers };
}

const CONFLICT = JSON.parse(GOOD.conflict.body ?? "") as object;
const { list, cancelled, conflict, otherMethod, otherPath } = GOOD;

test.each(Object.entries(GOOD))("%s matches the OpenAPI document", (_, seen) => {
  expect(differencesFromDocument(seen)).toStrictEqual([]);
});

describe("a difference is found in", () => {
  test.each([
    { ...cancelled, status: 304 },
    { ...list, status: 418 },
    { ...GOOD.preflight, headers: new Headers() },
    error("GET", LIST, 409, "order_already_shipped"),
    { ...otherMethod, method: "GET" },
    { ...otherPath, path: LIST },
    { ...otherMethod, path: "/v1/pets" },
    { ...otherPath, method: "PUT", path: LIST },
    { ...list, path: "/v1/pets" },
  ])("a $status for $method $path", (seen) => {
    const difference = `the document has no ${seen.status} here`;
    expect(differencesFromDocument(seen)).toStrictEqual([difference]);
  });

  const OWN = ["ETag", "Cache-Control", "Retry-After", "Allow"];
  test.each([...Object.keys(QUOTA), ...OWN])("every response without its header %s", (name) => {
    for (const seen of Object.values(GOOD).filter(({ headers }) => headers.has(name))) {
      const difference = `the header ${name} is missing`;
      expect(differencesFromDocument(withHeader(seen, name, null))).toStrictEqual([difference]);
    }
  });

  test.each([
    ["X-RateLimit-Remaining", "-1"],
    ["X-RateLimit-Limit", "60.5"],
    ["X-RateLimit-Reset", "soon"],
    ["RateLimit", '"minute";r=1;t=1'],
    ["Link", "</openapi.json>"],
    ["Sunset", "2028-07-01T00:00:00Z"],
    ["Deprecation", "true"],
  ])("a header %s: %s", (name, value) => {
    const difference = `the header ${name} is ${JSON.stringify(value)}`;
    expect(differencesFromDocument(withHeader(cancelled, name, value))).toEqual([difference]);
  });

  test.each([
    ["cancelled", "Retry-After"],
    ["list", "Server-Timing"],
    ["conflict", "WWW-Authenticate"],
  ] as const)("%s with a header %s", (name, header) => {
    const seen = withHeader(GOOD[name], header, "1");
    const difference = `the document has no header ${header.toLowerCase()} here`;
    expect(differencesFromDocument(seen)).toStrictEqual([difference]);
    // Cloudflare may add headers, but not headers that the document has for other responses.
    const expected = header === "Server-Timing" ? [] : [difference];
    expect(differencesFromDocument(seen, { isBehindEdge: true })).toStrictEqual(expected);
  });

  test.each<object>([
    [[{ id: 1, petId: null }]],
    [[{ id: 1, status: "pending" }]],
    [{ ...CONFLICT, detail: "x" }],
    [[{ id: "1" }]],
    [[{ id: 1, quantity: 1.5 }]],
    [[{ id: 1, shipDate: "2026-11-20T08:30:00+01:00" }]],
    [[{ id: 2 ** 64 }]],
    [{ orders: [] }],
    [{ ...CONFLICT, code: "not_found" }],
    [{ ...CONFLICT, code: "conflict" }],
    [{ ...CONFLICT, status: 404 }],
    [{ ...CONFLICT, message: undefined }],
  ])("the body %j", (body) => {
    const seen = { ...("code" in body ? conflict : list), body: JSON.stringify(body) };
    expect(differencesFromDocument(seen).length).toBeGreaterThan(0);
  });

  const withType = (type: string) => withHeader(list, "Content-Type", type);
  test.each([
    [{ ...cancelled, body: "{}" }, "the document has no body here"],
    [{ ...list, method: "HEAD" }, "an answer to HEAD has a body"],
    [{ ...list, body: "" }, "the body is not JSON"],
    [{ ...list, body: '[{"id":1}' }, "the body is not JSON"],
    [withType("text/plain"), "the body is text/plain"],
    [withType("application/json; charset=utf-8"), "the body is application/json; charset=utf-8"],
  ])("an answer, which is told: %#", (seen, difference) => {
    expect(differencesFromDocument(seen)).toStrictEqual([difference]);
  });
});
