import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { createApiKey, rotate } from "../../support/api-key-fixture.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";

/**
 * Starts a service, and records the location hint of each call to a Durable Object. The calls reach
 * the real Durable Objects.
 */
function startRecording() {
  const places: unknown[] = [];
  const limiters = {
    getByName: (...args: Parameters<typeof env.RATE_LIMITER.getByName>) => {
      places.push(args[1]);
      return env.RATE_LIMITER.getByName(...args);
    },
  } as unknown as Cloudflare.Env["RATE_LIMITER"];
  return { places, service: startService({}, { RATE_LIMITER: limiters }) };
}

test("a key's Durable Object is requested in the key's region, also with a former secret", async () => {
  const { id, key } = await createApiKey({ locationHint: "weur" });
  const newer = await rotate(id, 60_000);
  const { places, service } = startRecording();
  for (const secret of [key, newer]) {
    expect((await service(LIST, { key: secret })).status).toBe(200);
  }
  expect(places).toEqual([{ locationHint: "weur" }, { locationHint: "weur" }]);
});

test("the Durable Object of a key without a region is requested without a location hint", async () => {
  const { key } = await createApiKey();
  const { places, service } = startRecording();
  expect((await service(LIST, { key })).status).toBe(200);
  expect(places).toEqual([undefined]);
});

test("a location hint does not create a second Durable Object for a key", async () => {
  const { key } = await createApiKey({ locationHint: "apac-ne" });
  const { service } = startRecording();
  await service(LIST, { key });
  expect((await send(LIST, { key })).headers.get("X-RateLimit-Remaining")).toBe("58");
});
