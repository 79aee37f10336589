import { exports } from "cloudflare:workers";
import { expect, test } from "vitest";

test("a request without a key is 401", async () => {
  const response = await exports.default.fetch("http://x/v1/store/orders");
  expect(response.status).toBe(401);
  console.log([...response.headers], await response.text());
});
