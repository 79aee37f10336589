import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { readDocument } from "../../../src/openapi/read-document.ts";
import { expectError } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { stopClock } from "../../support/clock.ts";
import { brokenDatabase, fail } from "../../support/faults.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, type Send, send, startService } from "../../support/service.ts";
import { eventLines } from "../../support/written-lines.ts";

const REFERENCE = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';
const QUOTA = "/v1/quota";
const JSON_TYPE = { "content-type": "application/json" };
const CACHED = {
  "cache-control": "private, no-cache",
  etag: expect.stringMatching(/^"[0-9a-f]{32}"$/),
};

/** The messages in the examples of the OpenAPI document. */
const EXAMPLES = readDocument(JSON.parse(openApiDocument()))
  .operations.flatMap(({ responses }) => Object.values(responses))
  .flatMap(({ content }) => Object.values(content?.["application/json"].examples ?? {}))
  .map(({ value }) => value.message);
/** The request id in the example of a 500. */
const REQUEST_ID = "5326b8b8-ae4f-4a2d-b4e5-b61b76a5b63f";

const failing = (message: string) => startService({}, brokenDatabase("ORDERS", fail(message)));
const headersOf = ({ headers }: Response) => Object.fromEntries(headers);

test("every answer has exactly these headers and the body of the documented example, and HEAD has the same headers without the body", async () => {
  await placeOrder(8n);
  await placeOrder(1_004n, { status: "shipped" });
  const nowMs = stopClock();
  const quota = {
    "ratelimit-policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
    ratelimit: '"minute";r=59;t=60, "day";r=999;t=86400',
    "x-ratelimit-limit": "60",
    "x-ratelimit-remaining": "59",
    "x-ratelimit-reset": String(Math.ceil((nowMs + 60_000) / 1_000)),
  };
  const cases: [number, string, method: string, path: string, headers: object, to?: Send][] = [
    [200, "", "GET", LIST, { ...CACHED, ...JSON_TYPE }],
    [304, "", "GET", LIST, CACHED],
    [401, "unauthorized", "GET", LIST, { "www-authenticate": 'Bearer realm="store-orders"' }],
    [404, "not_found", "GET", "/v1/store", {}],
    [404, "order_not_found", "DELETE", `${LIST}/42`, {}],
    [405, "method_not_allowed", "POST", LIST, { allow: "GET, HEAD" }],
    [405, "method_not_allowed", "GET", `${LIST}/8`, { allow: "DELETE" }],
    [409, "order_already_shipped", "DELETE", `${LIST}/1004`, {}],
    [405, "method_not_allowed", "POST", QUOTA, { allow: "GET, HEAD" }],
    [412, "precondition_failed", "GET", LIST, {}],
    [500, "internal_error", "GET", LIST, {}, failing("no such table: orders")],
    [503, "service_unavailable", "GET", LIST, { "retry-after": "5" }, failing("Lost.")],
    [204, "", "DELETE", `${LIST}/8`, {}],
  ];
  let address = 0;
  for (const [status, code, method, path, headers, to = send] of cases) {
    const request = async (withMethod: string) => {
      const { key } = await createApiKey();
      const condition = { 304: "If-None-Match", 412: "If-Match" }[status] ?? "X-Noise";
      return to(path, {
        method: withMethod,
        ...(status === 401 ? { address: `192.0.2.${(address += 1)}` } : { key }),
        headers: {
          "X-Request-Id": REQUEST_ID,
          "X-Version": env.VERSION.id,
          [condition]: status === 304 ? "*" : '"none"',
        },
      });
    };
    const response = await request(method);
    expect(response.status, `${method} ${path}`).toBe(status);
    const link = code === "" ? REFERENCE : `${REFERENCE}, </#${code}>; rel="help"`;
    const type = code === "" ? {} : JSON_TYPE;
    const hsts = { "strict-transport-security": "max-age=31536000" };
    const own = { "x-request-id": REQUEST_ID, "x-version": env.VERSION.id, link, ...hsts };
    const all = { ...own, ...quota, ...type, ...headers };
    expect(headersOf(response), `${status} ${code}`).toStrictEqual(all);
    if (code === "") {
      expect(await response.text()).toBe(status === 200 ? '[{"id":8},{"id":1004}]' : "");
    } else {
      expect(EXAMPLES).toContain(await expectError(response, status, code));
    }
    if (method !== "GET") continue;
    const head = await request("HEAD");
    expect([head.status, await head.text()]).toStrictEqual([status, ""]);
    expect(headersOf(head), `HEAD: ${status} ${code}`).toStrictEqual(headersOf(response));
  }
  expect(await storedOrder(1_004n)).toMatchObject({ status: "shipped" });
  const logged = ["internal_error", "internal_error", "orders_database_unavailable"];
  expect(eventLines()).toMatchObject(logged.map((event) => ({ event, requestId: REQUEST_ID })));
});

test("the end of this API version is announced under /v1 if it is configured", async () => {
  for (const [vars, Deprecation, Sunset] of [
    [{ V1_DEPRECATED_AT: "2028-01-01T00:00:00.500Z" }, "@1830297600", null],
    [{ V1_SUNSET_AT: "2028-07-01T12:30:00Z" }, null, "Sat, 01 Jul 2028 12:30:00 GMT"],
  ] as const) {
    const { headers } = await startService(vars)(LIST);
    const announced = [headers.get("Deprecation"), headers.get("Sunset")];
    expect(announced).toStrictEqual([Deprecation, Sunset]);
  }
});

test("an orderId that is not an int64 in canonical decimal names no order, and paths are percent-decoded once", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  for (const id of ["abc", "01", "9223372036854775808", "1%0A", "%2531", "1%2F1", "%E0%A4%A"]) {
    const response = await send(`${LIST}/${id}`, { method: "DELETE", key });
    expect(await expectError(response, 404, "order_not_found"), id).toContain("int64");
  }
  expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
  const cancelled = await send("/v1/%73tore/%6frders/%31", { method: "DELETE", key });
  expect(cancelled.status).toBe(204);
});

test("an unknown path under /v1 is 404 with a key, and 401 without one, like every known path", async () => {
  const { key } = await createApiKey();
  const unknown = ["/v1", "/v1/pets/1", `${LIST}/`, `${LIST}/1/`, "/v1//store/orders"];
  unknown.push(`${QUOTA}/`, "/v1/Store/Orders", "/v1/store/%256Frders", "/v1/%zz");
  for (const path of unknown) await expectError(await send(path, { key }), 404, "not_found");
  for (const path of [...unknown, QUOTA, LIST, `${LIST}/1`, `${LIST}/abc`]) {
    await expectError(await send(path, { method: "DELETE" }), 401, "unauthorized");
  }
  for (const path of ["/", "/v11/store/orders", "/store/orders", "/%zz"]) {
    await expectError(await send(path), 404, "not_found");
  }
});

test("query parameters, a request body and other headers are ignored, even long ones", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  const query = "?page=2&limit=0&status=shipped&%zz&id=%00&=";
  const headers = { "X-Http-Method-Override": "DELETE", "X-Noise": "n".repeat(60_000) };
  expect(await (await send(LIST + query, { key, headers })).text()).toBe('[{"id":1}]');
  const encoded = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
  const body = { method: "DELETE", key, headers: encoded, body: '{"id": 2, ' };
  expect((await send(`${LIST}/1${query}`, body)).status).toBe(204);
});
