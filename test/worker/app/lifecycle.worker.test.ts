import { expect, test } from "vitest";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";
const APP = "https://app.example";
const VARS = {
  V1_DEPRECATED_AT: "2028-01-01T00:00:00.500Z",
  V1_SUNSET_AT: "2028-07-01T12:30:00Z",
  CORS_ORIGINS: APP,
};

test("by default, responses announce no end of this API version", async () => {
  const { key } = await createApiKey();
  const { headers } = await send(LIST, { key });
  expect([headers.has("Deprecation"), headers.has("Sunset")]).toStrictEqual([false, false]);
});

test("responses of every status announce the end of this API version if the end is configured", async () => {
  const { key } = await createApiKey();
  const service = startService(VARS);
  const answers = [
    await service(LIST, { key }),
    await service(LIST, { key, headers: { "If-None-Match": "*" } }),
    await service(`${LIST}/1`, { key, method: "DELETE" }),
    await service(LIST, { key, method: "POST" }),
    await service(LIST),
    await service(LIST, {
      method: "OPTIONS",
      headers: { Origin: APP, "Access-Control-Request-Method": "GET" },
    }),
  ];
  expect(answers.map(({ status }) => status)).toStrictEqual([200, 304, 404, 405, 401, 204]);
  for (const { headers } of answers) {
    expect(headers.get("Deprecation")).toBe("@1830297600");
    expect(headers.get("Sunset")).toBe("Sat, 01 Jul 2028 12:30:00 GMT");
  }
});

test("Deprecation can be set without Sunset", async () => {
  const { headers } = await startService({ V1_DEPRECATED_AT: VARS.V1_DEPRECATED_AT })(LIST);
  expect([headers.get("Deprecation"), headers.get("Sunset")]).toStrictEqual(["@1830297600", null]);
});
