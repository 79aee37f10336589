import { expect, test } from "vitest";
import { expectError } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, send } from "../../support/service.ts";

test("an orderId that is not an int64 in canonical decimal names no order, and paths are percent-decoded once", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  // What an int64 is, is shown in test/rules/order.core.test.ts.
  const ids = ["abc", "1.0", "01", "-0", "9223372036854775808", "%2B1", "1%0A", "%2531", "1%2F1"];
  for (const id of [...ids, "%E0%A4%A", "%zz", "1".repeat(10_000)]) {
    const response = await send(`${LIST}/${id}`, { method: "DELETE", key });
    expect(await expectError(response, 404, "order_not_found"), id).toContain("int64");
  }
  expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
  expect((await send("/%761/store/%6Frders", { key })).status).toBe(200);
  const cancelled = await send("/v1/%73tore/%6frders/%31", { method: "DELETE", key });
  expect(cancelled.status).toBe(204);
});

const UNKNOWN = [
  ["/v1", "/v1/", "/v1/store", "/v1/pets/1", `${LIST}/`, `${LIST}/1/`, `${LIST}/1/2`],
  ["/v1//store/orders", "/v1/Store/Orders", "/v1/store/%256Frders", "/v1/store/orders%00"],
  ["/v1/%zz", `/v1/${"long/".repeat(3_000)}`],
].flat();

test("an unknown path under /v1 is 404 with a key, and 401 without one, like every known path", async () => {
  const { key } = await createApiKey();
  for (const path of UNKNOWN) await expectError(await send(path, { key }), 404, "not_found");
  for (const path of [...UNKNOWN, LIST, `${LIST}/1`, `${LIST}/abc`]) {
    await expectError(await send(path, { method: "DELETE" }), 401, "unauthorized");
  }
  for (const path of ["/", "/v2/store/orders", "/v11/store/orders", "/store/orders", "/%zz"]) {
    await expectError(await send(path), 404, "not_found");
  }
});

test("query parameters, a request body and other headers are ignored, even long ones", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  const query = "?page=2&limit=0&status=shipped&%zz&id=%00&=";
  const headers = {
    Accept: "text/csv",
    "X-Request-Id": "x".repeat(10_000),
    "X-Http-Method-Override": "DELETE",
    "X-Noise": "n".repeat(60_000),
  };
  expect(await (await send(LIST + query, { key, headers })).text()).toBe('[{"id":1}]');
  const encoded = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
  const body = { method: "DELETE", key, headers: encoded, body: '{"id": 2, ' };
  expect((await send(`${LIST}/1${query}`, body)).status).toBe(204);
});
