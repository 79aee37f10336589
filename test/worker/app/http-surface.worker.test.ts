import fc from "fast-check";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, startService } from "../../support/service.ts";
import { events } from "../../support/written-lines.ts";

/** Generates one of the texts between spaces, or of `others` half as often. */
function anyOf(texts: string, ...others: fc.Arbitrary<string>[]): fc.Arbitrary<string> {
  return fc.oneof({ weight: 2, arbitrary: fc.constantFrom(...texts.split(" ")) }, ...others);
}

/** Only methods that the Workers runtime accepts. */
const anyMethod = anyOf("GET GET HEAD DELETE DELETE", anyOf("POST OPTIONS PROPFIND SEARCH"));

const anySegment = anyOf(
  "v1 store orders . .. 1 4",
  anyOf("%zz %E0%A4%A %00 %0d%0aX-Evil:1 %2e%2e %2F %252F %76%31 ' __proto__ :orderId * \" \\"),
  fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n }).map(String),
  fc.string({ unit: "grapheme", maxLength: 200 }),
);

const anySegments = fc.array(anySegment, { maxLength: 6 }).map((all) => all.join("/"));
const anyPath = anyOf(
  `${LIST} ${LIST}/1 ${LIST}?? ${LIST}?%&__proto__=1#fragment`,
  anySegment.map((segment) => `${LIST}/${segment}`),
  anySegments.map((segments) => `/v1/${segments}`),
  anySegments.map((segments) => `/${segments}`),
);

/** Only printable ASCII. For any other character, the runtime prints a warning. */
const anyHeaderText = fc
  .string({ unit: "binary-ascii", maxLength: 60 })
  .map((text) => text.replaceAll(/[^\x20-\x7e]/g, " "));

/** `Authorization` headers, in which `_` stands for a space, and each name in braces for a secret. */
const anyCredentials = anyOf(
  "Bearer_{good} Bearer_{good} bearer__{good}__ Bearer\t{good}",
  anyOf("{good} Basic_{good} Bearer_{good},_Bearer_{good} Bearer_{expired} Bearer_{invented}"),
  anyHeaderText.map((text) => `Bearer ${text}`),
);

const anyHeaders = fc.dictionary(
  anyOf("If-None-Match If-Match Range Accept Origin X-Request-Id X-HTTP-Method-Override Upgrade"),
  anyOf('* "*" W/" null DELETE websocket -1', anyHeaderText),
  { maxKeys: 4 },
);

const anyAddress = anyOf("::ffff:192.0.2.1 999.1.1.1 localhost 1.2.3.4,5.6.7.8 ::1%eth0");

const anyRequest = fc.tuple(anyMethod, anyPath, anyCredentials, anyHeaders, anyAddress);

// `startService` compares every response with the OpenAPI document.
test("any request receives a documented response with the right body and headers for its status, and never 500", async () => {
  const service = startService();
  const { key: good } = await createEnterpriseKey(1_000_000, 1_000_000);
  const { key: expired } = await createApiKey({ expiresAt: new Date(1) });
  const keys: Record<string, string> = { good, expired, invented: generateSecret() };
  await placeOrder(1n);
  await placeOrder(4n, { status: "shipped" });
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(anyRequest, async ([method, path, credentials, others, address]) => {
      const spaced = credentials.replaceAll("_", " ");
      const sent = spaced.replaceAll(/\{(\w+)\}/g, (_, name: string) => keys[name] ?? name);
      const headers = { ...others, Authorization: sent };
      const response = await service(path, { method, address, headers });
      // The path is not decoded here: `/%76%31` is not under `/v1`.
      const { pathname } = new URL(`https://store.example${path}`);
      if (/^\/v1(?:\/|$)/.test(pathname)) quotaOf(response);
      expect(response.headers.has("X-Evil")).toBe(false);
      await response.text();
      statuses.add(response.status);
    }),
    { numRuns: 300 },
  );
  expect([...statuses]).toEqual(expect.arrayContaining([200, 401, 404, 405]));
  const documented = [200, 204, 304, 401, 404, 405, 409, 412, 429];
  expect(documented).toEqual(expect.arrayContaining([...statuses]));
  expect(events()).toStrictEqual([]);
  expect(await storedOrder(4n)).toMatchObject({ status: "shipped" });
}, 60_000);
