import { expect, test } from "vitest";
import { SERVICE, ServedStore } from "./worker-server.ts";

const store = new ServedStore();

test("with JURISDICTION, no request reaches a Durable Object outside of it", async () => {
  await store.make();
  const { url } = await store.serve(SERVICE, { JURISDICTION: "eu" });
  // workerd has no jurisdictions, and says so. Without the var, the response is 200.
  const response = await fetch(`${url}/healthz`);
  expect([response.status, await response.text()]).toEqual([
    500,
    expect.stringContaining("Jurisdiction restrictions are not implemented"),
  ]);
});
