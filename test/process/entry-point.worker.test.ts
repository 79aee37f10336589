import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { d1Database } from "../../src/store/d1-database.ts";
import { findApiKey } from "../../src/store/keys/find-keys.ts";
import service from "../../src/worker/index.ts";
import { limiter } from "../../src/worker/isolate.ts";
import { limitedKeyOf } from "../../src/worker/limiter/object-call.ts";
import { createEnterpriseKey } from "../support/api-key-fixture.ts";

test("service bindings know what requests were told of a key", async () => {
  const { id, key } = await createEnterpriseKey(1, 1);
  const headers = { Authorization: `Bearer ${key}` };
  for (const status of [404, 429]) {
    const request = new Request<unknown, any>("https://store.example/v1/none", { headers });
    const answer = await service.fetch(request, env, createExecutionContext());
    expect(answer.status).toBe(status);
  }
  const record = await findApiKey(d1Database(env.KEYS).orm, id);
  expect(limiter.isRefusing(limitedKeyOf(record!))).toBe(true);
});
