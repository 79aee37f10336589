import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, startService } from "../../support/service.ts";
import { events } from "../../support/written-lines.ts";

const anyOf = (texts: string) => fc.constantFrom(...texts.split(" "));

/** Only printable ASCII. For any other character, the runtime prints a warning. */
const anyHeaderText = fc.stringMatching(/^[ -~]{0,60}$/);

/** Only methods that the Workers runtime accepts. */
const anyMethod = anyOf("GET GET GET HEAD DELETE DELETE DELETE POST OPTIONS PROPFIND SEARCH");

const anySegment = fc.oneof(
  anyOf("v1 store orders . .. 1 4 %zz %E0%A4%A %00 %0d%0aX-Evil:1 %2e%2e %2F %252F %76%31 '"),
  anyOf('__proto__ :orderId * " \\ ? ?%&__proto__=1#fragment 9223372036854775807 -0'),
  fc.string({ unit: "grapheme", maxLength: 200 }),
);

const anyPath = fc.oneof(
  anyOf(`${LIST} ${LIST}/1`),
  fc
    .tuple(anyOf(`/v1 ${LIST}`), fc.array(anySegment))
    .map(([start, parts]) => [start, ...parts].join("/")),
);

/** `Authorization` headers, in which each name in braces stands for a secret. */
const anyCredentials = fc.oneof(
  fc.constantFrom("Bearer {good}", "bearer  {good} ", "Bearer\t{good}"),
  fc.constantFrom("", "Basic {good}", "Bearer {good}, Bearer {good}", "Bearer {expired}"),
  anyHeaderText.map((text) => `Bearer ${text}`),
);

const { id: version } = env.VERSION;
const anyPartOfVersion = fc.nat(version.length - 1).map((length) => version.slice(0, length));

const anyHeaders = fc.dictionary(
  anyOf("If-None-Match If-Match Range Accept Origin X-Request-Id X-HTTP-Method-Override X-Version"),
  fc.oneof(anyOf('* "*" W/" null DELETE websocket -1'), anyPartOfVersion, anyHeaderText),
  { maxKeys: 4 },
);

const anyRequest = fc.tuple(anyMethod, anyPath, anyCredentials, anyHeaders);

// `startService` compares every response with the OpenAPI document.
test("any request receives a documented response with the right body and headers for its status, and never 500", async () => {
  const service = startService();
  const { key: good } = await createEnterpriseKey(1_000_000, 1_000_000);
  const { key: expired } = await createApiKey({ expiresAt: new Date(1) });
  const keys: Record<string, string> = { good, expired };
  await placeOrder(1n);
  await placeOrder(4n, { status: "shipped" });
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(anyRequest, async ([method, path, credentials, others]) => {
      const Authorization = credentials.replaceAll(
        /\{(\w+)\}/g,
        (_, name: string) => keys[name] ?? name,
      );
      const headers = { ...others, Authorization };
      const response = await service(path, { method, headers });
      // `..` can lead out of `/v1`.
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
});
