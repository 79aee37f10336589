import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { type Send, startService } from "../../support/service.ts";
import { events } from "../../support/written-lines.ts";

const MILLION = 1_000_000;

let service: Send;
/** Secrets, by the names that stand for them in `anyCredentials`. */
let keys: Readonly<Record<string, string>>;

beforeEach(async () => {
  service = startService();
  const past = new Date(Date.now() - 1_000);
  const { key: good } = await createEnterpriseKey(MILLION, MILLION);
  const { key: expired } = await createApiKey({ expiresAt: past });
  const { key: revoked } = await createApiKey({ revokedAt: past });
  keys = { good, expired, revoked, invented: generateSecret() };
  for (const id of [1n, 2n, 3n]) await placeOrder(id);
  await placeOrder(4n, { status: "shipped" });
});

/** Generates only methods that the Workers runtime accepts. */
const anyMethod = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("GET", "HEAD", "DELETE") },
  fc.constantFrom("POST", "PUT", "PATCH", "OPTIONS", "PROPFIND", "PURGE", "SEARCH", "LOCK", "COPY"),
);

const HOSTILE = [
  ["%", "%zz", "%E0%A4%A", "%00", "%0d%0aX-Evil:1", "%2e%2e", "%2F", "%252F", "%76%31", "'"],
  ["__proto__", "constructor", ":orderId", "*", "1;DROP TABLE orders", '"', "\\"],
].flat();

const anySegment = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("v1", "store", "orders", "", ".", "..", "1", "4") },
  fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n }).map(String),
  { weight: 2, arbitrary: fc.constantFrom(...HOSTILE) },
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.string({ unit: "grapheme", maxLength: 200 }),
);

const anySegments = fc.array(anySegment, { maxLength: 6 }).map((all) => all.join("/"));
const anyPath = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom("/v1/store/orders", "/v1/store/orders/1", "/v1") },
  { weight: 3, arbitrary: anySegment.map((segment) => `/v1/store/orders/${segment}`) },
  { weight: 2, arbitrary: anySegments.map((segments) => `/v1/${segments}`) },
  anySegments.map((segments) => `/${segments}`),
);

const anyQuery = fc.oneof(
  { weight: 3, arbitrary: fc.constant("") },
  fc.string({ unit: "binary", maxLength: 20 }).map((text) => `?${text}`),
  fc.constantFrom("?key=sord_x&limit=-1&page=%", "?%", "?__proto__=1", "#fragment", "??"),
);

/** Generates only printable ASCII. For any other character, the runtime prints a warning. */
const anyHeaderText = fc
  .string({ unit: "binary-ascii", maxLength: 60 })
  .map((text) => text.replaceAll(/[^\x20-\x7e]/g, " "));

/** Generates `Authorization` headers, in which each name in braces stands for a secret. */
const anyCredentials = fc.oneof(
  { weight: 5, arbitrary: fc.constant("Bearer {good}") },
  fc.constantFrom("", "{good}", "bearer  {good}  ", "Basic {good}", "Bearer {good}, Bearer {good}"),
  fc.constantFrom("Bearer\t{good}", "Bearer {expired}", "Bearer {revoked}", "Bearer {invented}"),
  fc.constant(`Bearer ${"a".repeat(20_000)}`),
  anyHeaderText,
  anyHeaderText.map((text) => `Bearer ${text}`),
);

const HEADERS = [
  ["If-None-Match", "If-Match", "Range", "Accept", "Accept-Encoding", "Content-Type", "Cookie"],
  ["X-Request-Id", "X-HTTP-Method-Override", "X-Forwarded-For", "Origin", "Host", "Expect"],
  ["Access-Control-Request-Method", "Content-Length", "Transfer-Encoding", "Upgrade"],
].flat();

const anyHeaders = fc.dictionary(
  fc.constantFrom(...HEADERS),
  fc.oneof(anyHeaderText, fc.constantFrom("*", '"*"', 'W/"', "null", "DELETE", "websocket", "-1")),
  { maxKeys: 4 },
);

const anyAddress = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.constantFrom("", "::ffff:192.0.2.1", "999.1.1.1", "localhost", "1.2.3.4, 5.6.7.8", "::1%eth0"),
);

const anyRequest = fc.record({
  method: anyMethod,
  path: fc.tuple(anyPath, anyQuery).map(([path, query]) => path + query),
  credentials: anyCredentials,
  headers: anyHeaders,
  address: anyAddress,
});

/** Does not decode the path: `/%76%31` is not under `/v1`. */
function isUnderV1(path: string): boolean {
  return /^\/v1(?:\/|$)/.test(new URL(`https://store.example${path}`).pathname);
}

const DOCUMENTED = [200, 204, 304, 401, 404, 405, 409, 412, 429];

// `startService` compares every response with the OpenAPI document.
test("any request receives a documented response with the right body and headers for its status, and never 500", async () => {
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(anyRequest, async ({ method, path, credentials, headers, address }) => {
      const sent = credentials.replace(/\{(\w+)\}/g, (_, name: string) => keys[name] ?? name);
      const authorization = sent === "" ? {} : { Authorization: sent };
      const options = { method, address, headers: { ...headers, ...authorization } };
      const response = await service(path, options);
      expect(DOCUMENTED).toContain(response.status);
      if (isUnderV1(path)) quotaOf(response);
      expect(response.headers.has("X-Evil")).toBe(false);
      const text = await response.text();
      if (response.status >= 400 && text !== "") {
        expect(JSON.parse(text).message).toMatch(/^[A-Z][^]*\.$/);
      }
      statuses.add(response.status);
    }),
    { numRuns: 300 },
  );
  expect([...statuses]).toEqual(expect.arrayContaining([200, 401, 404, 405]));
  expect(events()).toStrictEqual([]);
  expect(await storedOrder(4n)).toMatchObject({ status: "shipped" });
}, 60_000);
