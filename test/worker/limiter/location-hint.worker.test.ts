import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { createApiKey, rotate } from "../../support/api-key-fixture.ts";
import { startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";

test("a key's Durable Object is requested in the key's region, also with a former secret", async () => {
  const places: unknown[] = [];
  const limiters = {
    getByName: (...args: Parameters<typeof env.RATE_LIMITER.getByName>) => {
      places.push(args[1]);
      return env.RATE_LIMITER.getByName(...args);
    },
  } as unknown as Cloudflare.Env["RATE_LIMITER"];
  const service = startService({}, { RATE_LIMITER: limiters });
  const { id, key: former } = await createApiKey({ locationHint: "weur" });
  const own = await rotate(id, 60_000);
  const { key: other } = await createApiKey();
  for (const key of [former, own, other]) {
    expect((await service(LIST, { key })).status).toBe(200);
  }
  expect(places).toEqual([{ locationHint: "weur" }, { locationHint: "weur" }, undefined]);
});
