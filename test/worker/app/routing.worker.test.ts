import { describe, expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { send } from "../../support/service.ts";

const LIST = "/v1/store/orders";

test("an orderId that is not an int64 in canonical decimal is treated as an unknown order", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  const ids = [
    "abc",
    "1.5",
    "1.0",
    "1e0",
    "01",
    "007",
    "+1",
    "-0",
    "-01",
    "--1",
    "0x1",
    "1n",
    "1_0",
    "1,0",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551617",
    "%2B1",
    "%201",
    "1%20",
    "1%0A",
    "1%00",
    "%D9%A1",
    "%EF%BC%91",
    "%2531",
    "1%2F1",
    "%E0%A4%A",
    "%zz",
    "%",
    "1%",
    "null",
    "*",
    "1;--",
    "1'",
  ];
  for (const id of ids) {
    const response = await send(`${LIST}/${id}`, { method: "DELETE", key });
    const message = await expectError(response, 404, "order_not_found");
    expect(message, id).toContain("int64");
  }
  expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
  expect(quotaOf(await send(LIST, { key })).remaining).toBe(59 - ids.length);
});

test("an orderId of ten thousand digits is treated as an unknown order", async () => {
  const { key } = await createApiKey();
  const response = await send(`${LIST}/${"1".repeat(10_000)}`, { method: "DELETE", key });
  await expectError(response, 404, "order_not_found");
});

describe("paths are percent-decoded once", () => {
  test.each([
    ["GET", "/v1/store/%6Frders", 200],
    ["GET", "/%761/store/orders", 200],
    ["DELETE", "/v1/store/orders/%31", 204],
    ["DELETE", "/v1/%73tore/%6frders/%31", 204],
  ])("%s %s returns %d", async (method, path, status) => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    expect((await send(path, { method, key })).status).toBe(status);
  });
});

describe("an unknown path", () => {
  const UNKNOWN = [
    "/v1",
    "/v1/",
    "/v1/store",
    "/v1/pets/1",
    `${LIST}/`,
    `${LIST}/1/`,
    `${LIST}/1/2`,
    "/v1//store/orders",
    "/v1/Store/Orders",
    "/v1/store/%256Frders",
    "/v1/store/order%73s",
    "/v1/%zz",
    "/v1/%E0%A4%A/orders",
    "/v1/store/orders%00",
  ];

  test("returns 404 with a key", async () => {
    const { key } = await createApiKey();
    for (const [index, path] of UNKNOWN.entries()) {
      const response = await send(path, { key });
      expect(quotaOf(response).day.remaining, path).toBe(999 - index);
      await expectError(response, 404, "not_found");
    }
  });

  test("returns 401 without a key, like every known path", async () => {
    for (const path of [...UNKNOWN, LIST, `${LIST}/1`, `${LIST}/abc`]) {
      const response = await send(path, { method: "DELETE" });
      const challenge = response.headers.get("WWW-Authenticate");
      expect(challenge, path).toBe('Bearer realm="store-orders"');
      quotaOf(response);
      await expectError(response, 401, "unauthorized");
    }
  });

  test("of fifteen thousand characters returns 404", async () => {
    const { key } = await createApiKey();
    const path = `/v1/${"long/".repeat(3_000)}`;
    await expectError(await send(path, { key }), 404, "not_found");
    await expectError(await send(path), 401, "unauthorized");
  });

  test("outside the API returns 404", async () => {
    for (const path of ["/", "/v2/store/orders", "/v11/store/orders", "/store/orders", "/%zz"]) {
      await expectError(await send(path), 404, "not_found");
    }
  });
});

describe("another method on a known path returns 405", () => {
  test.each(["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])(
    "%s the list",
    async (method) => {
      const { key } = await createApiKey();
      const response = await send(LIST, { method, key });
      expect(response.headers.get("Allow")).toBe("GET, HEAD");
      expect(quotaOf(response).remaining).toBe(59);
      expect(await expectError(response, 405, "method_not_allowed")).toContain(method);
    },
  );

  test.each(["GET", "POST", "PUT", "PATCH", "OPTIONS", "PROPFIND"])(
    "%s an order",
    async (method) => {
      const { key } = await createApiKey();
      await placeOrder(1n);
      const response = await send(`${LIST}/1`, { method, key });
      expect(response.headers.get("Allow")).toBe("DELETE");
      expect(quotaOf(response).remaining).toBe(59);
      expect(await expectError(response, 405, "method_not_allowed")).toContain(method);
      expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
    },
  );
});

describe("HEAD returns the same as GET without the body", () => {
  test("200 and 304", async () => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const get = await send(LIST, { key });
    const etag = get.headers.get("ETag")!;
    for (const headers of [{}, { "If-None-Match": etag }]) {
      const expected = await send(LIST, { key, headers });
      const head = await send(LIST, { method: "HEAD", key, headers });
      expect(head.status).toBe(expected.status);
      expect([...head.headers.keys()]).toStrictEqual([...expected.headers.keys()]);
      for (const name of ["ETag", "Content-Type", "Cache-Control"]) {
        expect(head.headers.get(name)).toBe(expected.headers.get(name));
      }
      expect(await head.text()).toBe("");
    }
  });

  test.each([
    [401, LIST, false, null],
    [404, "/v1/nothing", true, null],
    [405, `${LIST}/1`, true, "DELETE"],
  ])("%d", async (status, path, hasKey, allow) => {
    const { key } = await createApiKey();
    const head = await send(path, { method: "HEAD", ...(hasKey ? { key } : {}) });
    expect(head.status).toBe(status);
    expect(head.headers.get("Allow")).toBe(allow);
    expect(quotaOf(head).remaining).toBe(59);
    expect(await head.text()).toBe("");
  });
});

describe("the API ignores", () => {
  test("query parameters", async () => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const query = "?page=2&limit=0&status=shipped&%zz&id=%00&=";
    expect(await (await send(LIST + query, { key })).text()).toBe('[{"id":1}]');
    const cancelled = await send(`${LIST}/1${query}`, { method: "DELETE", key });
    expect(cancelled.status).toBe(204);
  });

  test("a request body", async () => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const response = await send(`${LIST}/1`, {
      method: "DELETE",
      key,
      headers: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
      body: '{"id": 2, ',
    });
    expect(response.status).toBe(204);
  });

  test("other headers, even long ones", async () => {
    const { key } = await createApiKey();
    const response = await send(LIST, {
      key,
      headers: {
        Accept: "text/csv",
        "X-Request-Id": "x".repeat(10_000),
        "X-Http-Method-Override": "DELETE",
        "X-Noise": "n".repeat(60_000),
      },
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("X-Request-Id")).toMatch(/^[0-9a-f-]{36}$/);
  });
});
