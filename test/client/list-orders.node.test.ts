import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test } from "vitest";
import { clientOf, list, ScriptedService, TAG } from "./scripted-service.ts";

async function loop(orders: AsyncIterable<unknown>) {
  const received: unknown[] = [];
  try {
    for await (const order of orders) received.push(order);
  } catch (error) {
    return { received, error };
  }
  return { received, error: null };
}

test("int64 values arrive with every digit, however the body is divided into parts", async () => {
  const text =
    '[{"id":-9223372036854775808,"petId":9223372036854775807,"quantity":-0,"complete":false},' +
    '{"id":9007199254740993,"shipDate":"2026-12-01T09:00:00.000Z","tags":[1.5,{"a":null}]}]';
  const unknown = { tags: [1.5, { a: null }] };
  for (const size of [1, 2, 7, 40]) {
    const parts = text.match(new RegExp(`.{1,${size}}`, "g")) ?? [];
    const client = clientOf(new ScriptedService(list(...parts)));
    expect(await client.listOrders().all()).toEqual([
      { id: -(2n ** 63n), petId: 2n ** 63n - 1n, quantity: 0n, complete: false },
      { id: 9007199254740993n, shipDate: "2026-12-01T09:00:00.000Z", ...unknown },
    ]);
  }
});

test.each([
  [{ baseUrl: new URL("https://shop.example") }, "https://shop.example"],
  [{ baseUrl: "https://shop.example/v1/" }, "https://shop.example"],
  [{ baseUrl: "https://shop.example/api/" }, "https://shop.example/api"],
  [{ baseUrl: "http://a.example", allowHttp: true }, "http://a.example"],
  [{ baseUrl: "http://[::1]:8787" }, "http://[::1]:8787"],
  [{ baseUrl: "http://shop.localhost" }, "http://shop.localhost"],
])("with the options %o, each iteration sends a request of its own", async (options, base) => {
  const service = new ScriptedService(list('[{"id":1}]'), list('[{"id":2}]'));
  const orders = clientOf(service, options).listOrders();
  expect(await orders.all()).toEqual([{ id: 1n }]);
  expect(await loop(orders)).toEqual({ received: [{ id: 2n }], error: null });
  const sent = { method: "GET", url: `${base}/v1/store/orders` };
  expect(service.requests).toMatchObject([sent, sent]);
});

test.each([
  ["a missing closing bracket", 2, true, ['[{"id":1},{"id":2}']],
  ["a lost connection", 1, true, ['[{"id":1},', new TypeError("terminated")]],
  ["an element that is not an order", 2, false, ['[{"id":1},', '{"id":2},', '{"id":"3"}]']],
  ["an element without an id", 0, false, ['[{"petId":1}]']],
  ["bytes after the end", 2, false, ['[{"id":1},', '{"id":2}]', "1"]],
  ["an object as body", 0, false, ['{"orders":[]}']],
])("a list with %s throws in a loop; oneMoment reads it again if cut off", async (...row) => {
  const [, count, isCutOff, parts] = row;
  const service = new ScriptedService(list(...parts), list(...parts), list('[{"id":9}]'));
  const client = clientOf(service);
  const orders = client.listOrders();
  const { received, error } = await loop(orders);
  const broken = { code: "broken_list", status: 200, receivedCount: count, isCutOff };
  expect(error).toMatchObject(broken);
  expect(received).toHaveLength(count);
  expect(service.requests).toHaveLength(1);
  expect(orders.etag).toBeNull();
  const whole = { received: [{ id: 9n }], error: null };
  const again = client.listOrders({ oneMoment: true });
  expect(await loop(again)).toMatchObject(isCutOff ? whole : { received: [], error: broken });
  expect(again.etag).toBe(isCutOff ? TAG : null);
  expect(service.requests).toHaveLength(isCutOff ? 3 : 2);
});

test("leaving the loop cancels the request, and provides no entity tag", async () => {
  const service = new ScriptedService(list('[{"id":1},{"id":2}]'));
  const orders = clientOf(service).listOrders();
  for await (const _ of orders) break;
  expect(service.requests[0]?.signal?.aborted).toBe(true);
  expect(orders.etag).toBeNull();
});

test.each([false, true])(
  "an abort takes effect before the next order of the same part (oneMoment %s)",
  async (oneMoment) => {
    const abort = new AbortController();
    const client = clientOf(new ScriptedService(list('[{"id":1},{"id":2},{"id":3}]')));
    const orders = client.listOrders({ signal: abort.signal, oneMoment })[Symbol.asyncIterator]();
    expect(await orders.next()).toEqual({ done: false, value: { id: 1n } });
    abort.abort("enough");
    await expect(orders.next()).rejects.toBe("enough");
  },
);

test.each([
  [200, () => new Response("<html>", { headers: { "Content-Type": "text/html" } })],
  [418, () => Response.json({ code: "teapot", message: "Short and stout." }, { status: 418 })],
  [502, () => Response.json({ code: "teapot", message: "", status: 418 }, { status: 502 })],
])("recognizes a %d that is not from the service", async (status, answer) => {
  const reading = clientOf(new ScriptedService(answer), { retries: 0 }).listOrders().all();
  await expect(reading).rejects.toMatchObject({ code: "unexpected_answer", status });
});

test.each([true, false])(
  "the tag of a list is sent as If-None-Match, and stays after a 304 (all: %s)",
  async (isAll) => {
    const unchanged = () => new Response(null, { status: 304 });
    const service = new ScriptedService(list('[{"id":1}]'), unchanged);
    const client = clientOf(service);
    const orders = client.listOrders({ ifNoneMatch: null });
    expect(orders.etag).toBeNull();
    expect(isAll ? await orders.all() : (await loop(orders)).received).toEqual([{ id: 1n }]);
    expect(orders.etag).toBe(TAG);
    // An unchanged list is an error, so that it is not mistaken for an empty list.
    const again = client.listOrders({ ifNoneMatch: TAG });
    const error = { code: "not_modified", status: 304 };
    await expect(again.all()).rejects.toMatchObject(error);
    expect(await loop(again)).toMatchObject({ received: [], error });
    expect(again.etag).toBe(TAG);
    const sent = service.requests.map(({ headers }) => headers.get("If-None-Match"));
    expect(sent).toEqual([null, TAG, TAG]);
  },
);

test("follows no redirect, because the key could go to another address, and names it", async () => {
  let received = 0;
  const server = createServer((_, response) => {
    received += 1;
    response.writeHead(301, { Location: "/elsewhere?x" }).end();
  });
  onTestFinished(() => void server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const listing = clientOf(globalThis, { baseUrl, retries: 0 }).listOrders().all();
  const message = expect.stringContaining(`status 301. It redirects to ${baseUrl}: `);
  await expect(listing).rejects.toMatchObject({ code: "unexpected_answer", message });
  expect(received).toBe(1);
});

test("a loop over many orders needs no more memory than one over a few", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const usedBytes = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const parts = Array(15).fill(`{"id":9000000000000000000,"quantity":12},`.repeat(1_000));
  let count = 0;
  let firstBytes = 0;
  const service = new ScriptedService(list("[", ...parts, '{"id":1}]'));
  for await (const _ of clientOf(service).listOrders()) {
    count += 1;
    if (count === 5_000) firstBytes = usedBytes();
    if (count === 15_000) expect(usedBytes() - firstBytes).toBeLessThan(1_000_000);
  }
  expect(count).toBe(15_001);
});
