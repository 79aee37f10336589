import { expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { list, OPTIONS, ScriptedService } from "./scripted-service.ts";

const TAG = '"b635bf2f"';

function clientOf(service: ScriptedService) {
  return createClient({ ...OPTIONS, fetch: service.fetch, retries: 1 });
}

/** Returns a scripted response with a list of orders and the entity tag `TAG`. */
function tagged(...parts: readonly string[]) {
  const answer = list(...parts);
  return async (...args: Parameters<typeof answer>) => {
    const response = await answer(...args);
    response.headers.set("ETag", TAG);
    return response;
  };
}

function unchanged(): Response {
  return new Response(null, { status: 304, headers: { ETag: TAG } });
}

test.each([
  ["all()", { oneMoment: false, isLoop: false }],
  ["a loop", { oneMoment: false, isLoop: true }],
  ["a loop with oneMoment", { oneMoment: true, isLoop: true }],
])("%s that receives the complete list provides the entity tag", async (_, how) => {
  const { oneMoment, isLoop } = how;
  const orders = clientOf(new ScriptedService(tagged('[{"id":1}]'))).listOrders({ oneMoment });
  expect(orders.etag).toBeNull();
  if (isLoop) for await (const order of orders) expect(order).toEqual({ id: 1n });
  else expect(await orders.all()).toEqual([{ id: 1n }]);
  expect(orders.etag).toBe(TAG);
});

test("an incomplete list, or a loop that ends early, provides no entity tag", async () => {
  const broken = clientOf(new ScriptedService(tagged('[{"id":1}'))).listOrders();
  await expect(broken.all()).rejects.toMatchObject({ code: "broken_list" });
  expect(broken.etag).toBeNull();
  const left = clientOf(new ScriptedService(tagged('[{"id":1},{"id":2}]'))).listOrders();
  for await (const order of left) if (order.id === 1n) break;
  expect(left.etag).toBeNull();
});

test("sends If-None-Match only if the caller passes an entity tag", async () => {
  const service = new ScriptedService(tagged("[]"));
  await clientOf(service).listOrders({ ifNoneMatch: null }).all();
  await clientOf(service).listOrders({ ifNoneMatch: TAG }).all();
  await clientOf(service)
    .listOrders({ ifNoneMatch: `W/${TAG}` })
    .all();
  const sent = service.requests.map(({ headers }) => headers.get("If-None-Match"));
  expect(sent).toEqual([null, TAG, `W/${TAG}`]);
});

test("an unchanged list is an error, so that it is not mistaken for an empty list", async () => {
  const service = new ScriptedService(unchanged);
  const orders = clientOf(service).listOrders({ ifNoneMatch: TAG });
  const notModified = { name: "NotModifiedError", code: "not_modified", status: 304 };
  await expect(orders.all()).rejects.toMatchObject(notModified);
  const loop = orders[Symbol.asyncIterator]();
  await expect(loop.next()).rejects.toMatchObject(notModified);
  expect(service.requests).toHaveLength(2);
});

test.each(["", "b635bf2f", '"b635', '"a", "b"', '"a"\n', "*"])(
  "the entity tag %j is refused before any request",
  (ifNoneMatch) => {
    const service = new ScriptedService(unchanged);
    expect(() => clientOf(service).listOrders({ ifNoneMatch })).toThrow(/^ifNoneMatch: /);
    expect(service.requests).toHaveLength(0);
  },
);
