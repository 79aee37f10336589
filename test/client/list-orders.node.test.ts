import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test, vi } from "vitest";
import type { OrderList } from "../../src/client/client.ts";
import type { Order } from "../../src/client/order.ts";
import { type Answer, clientOf, failed, list, ScriptedService } from "./scripted-service.ts";

const TAG = '"b635bf2f"';

async function loop(orders: OrderList) {
  const received: Order[] = [];
  const read = async () => {
    for await (const order of orders) received.push(order);
    return null;
  };
  return { received, error: await read().catch((error: unknown) => error) };
}

/** Returns a client that never retries. Its service gives these answers. */
function clientWith(...answers: readonly Answer[]) {
  return clientOf(new ScriptedService(...answers), { retries: 0 });
}

function tagged(text: string) {
  const headers = { "Content-Type": "application/json; charset=utf-8", ETag: TAG };
  return () => new Response(text, { headers });
}

async function serve(listener: RequestListener, { isClosed = false } = {}): Promise<string> {
  const server = createServer(listener);
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  if (isClosed) server.close();
  return `http://127.0.0.1:${port}`;
}

test("int64 values arrive with every digit, however the body is divided into parts", async () => {
  const text =
    '[{"id":-9223372036854775808,"petId":9223372036854775807,"quantity":-0,"complete":false},' +
    '{"id":9007199254740993,"shipDate":"2026-12-01T09:00:00.000Z","tags":[1.5,{"a":null}]}]';
  for (let size = 1; size <= 40; size += 1) {
    const parts = text.match(new RegExp(`.{1,${size}}`, "g")) ?? [];
    const orders = clientWith(list(...parts)).listOrders();
    const unknown = { tags: [1.5, { a: null }] };
    expect(await orders.all()).toEqual([
      { id: -(2n ** 63n), petId: 2n ** 63n - 1n, quantity: 0n, complete: false },
      { id: 9007199254740993n, shipDate: "2026-12-01T09:00:00.000Z", ...unknown },
    ]);
  }
});

test.each(["", "/v1", "/v1/", "/api/"])(
  "with a base URL that ends with %j, each iteration sends a request of its own",
  async (end) => {
    const service = new ScriptedService(list('[{"id":1}]'), list('[{"id":2}]'));
    const baseUrl = new URL(`https://shop.example${end}`);
    const orders = clientOf(service, { baseUrl: end === "" ? baseUrl : String(baseUrl) });
    const both = orders.listOrders();
    expect(service.requests).toHaveLength(0);
    expect(await both.all()).toEqual([{ id: 1n }]);
    expect(await loop(both)).toEqual({ received: [{ id: 2n }], error: null });
    const url = `https://shop.example${end === "/api/" ? "/api" : ""}/v1/store/orders`;
    expect(service.requests).toMatchObject(Array(2).fill({ method: "GET", url }));
  },
);

test.each([
  ["a missing closing bracket", ['[{"id":1},{"id":2}']],
  ["an order cut in two", ['[{"id":1},{"id":2},{"i']],
  ["a lost connection", ['[{"id":1},', '{"id":2},', new TypeError("terminated")]],
  ["a character that is not JSON", ['[{"id":1},', '{"id":2},', "?]"]],
  ["an element that is not an order", ['[{"id":1},', '{"id":2},', '{"id":"3"}]']],
  ["an element without an id", ['[{"id":1},', '{"id":2},', '{"petId":3}]']],
  ["bytes after the end", ['[{"id":1},', '{"id":2}]', "1"]],
  ["no body", [""]],
  ["the body null", ["null"]],
  ["an object as body", ['{"orders":[]}']],
  ["a string as body", ['"[]"']],
])("a list with %s throws an error in a loop, without a retry or entity tag", async (_, parts) => {
  const service = new ScriptedService(list(...parts));
  const orders = clientOf(service).listOrders();
  const { received, error } = await loop(orders);
  expect(error).toMatchObject({ name: "BrokenListError", code: "broken_list", status: 200 });
  expect(error).toHaveProperty("receivedCount", received.length);
  expect(received.length).toBeLessThanOrEqual(2);
  expect(service.requests).toHaveLength(1);
  expect(orders.etag).toBeNull();
});

test("leaving the loop cancels the request, and provides no entity tag", async () => {
  const service = new ScriptedService(tagged('[{"id":1},{"id":2}]'));
  const orders = clientOf(service).listOrders();
  for await (const order of orders) {
    expect(order).toEqual({ id: 1n });
    break;
  }
  expect(service.requests[0]?.signal?.aborted).toBe(true);
  expect(orders.etag).toBeNull();
});

test.each([false, true])(
  "an abort takes effect before the next order of the same part (oneMoment %s)",
  async (oneMoment) => {
    const abort = new AbortController();
    const reason = new Error("enough");
    const client = clientWith(list('[{"id":1},{"id":2},{"id":3}]'));
    const orders = client.listOrders({ signal: abort.signal, oneMoment })[Symbol.asyncIterator]();
    expect(await orders.next()).toEqual({ done: false, value: { id: 1n } });
    abort.abort(reason);
    await expect(orders.next()).rejects.toBe(reason);
  },
);

test.each([
  [200, () => new Response("<html>", { headers: { "Content-Type": "text/html" } })],
  [418, failed(418, "teapot")],
])("recognizes a %d that is not from the service", async (status, answer) => {
  const reading = clientWith(answer).listOrders().all();
  await expect(reading).rejects.toMatchObject({ code: "unexpected_answer", status });
});

test("the tag of a complete list is sent as If-None-Match, and stays after a 304", async () => {
  const unchanged = () => new Response(null, { status: 304 });
  const reads = [
    (orders: OrderList) => orders.all(),
    async (orders: OrderList) => (await loop(orders)).received,
  ];
  for (const [index, read] of [...reads, ...reads].entries()) {
    const service = new ScriptedService(tagged('[{"id":1}]'), unchanged);
    const oneMoment = index > 1;
    const orders = clientOf(service).listOrders({ oneMoment, ifNoneMatch: null });
    expect(orders.etag).toBeNull();
    expect(await read(orders)).toEqual([{ id: 1n }]);
    expect(orders.etag).toBe(TAG);

    // An unchanged list is an error, so that it is not mistaken for an empty list.
    const again = clientOf(service).listOrders({ oneMoment, ifNoneMatch: `W/${TAG}` });
    const error = { name: "NotModifiedError", code: "not_modified", status: 304 };
    await expect(again.all()).rejects.toMatchObject(error);
    expect(await loop(again)).toMatchObject({ error });
    expect(again.etag).toBe(`W/${TAG}`);
    const sent = service.requests.map(({ headers }) => headers.get("If-None-Match"));
    expect(sent).toEqual([null, `W/${TAG}`, `W/${TAG}`]);
  }
});

test.each(["", "b635bf2f", '"b635', '"a", "b"', '"a"\n', "*"])(
  "the entity tag %j is refused before any request",
  (ifNoneMatch) => {
    expect(() => clientWith().listOrders({ ifNoneMatch })).toThrow(/^ifNoneMatch: /);
  },
);

test("a refused connection is an error that names host and cause, and CORS only in a browser", async () => {
  const baseUrl = await serve(() => undefined, { isClosed: true });
  const client = clientOf(globalThis, { baseUrl, retries: 0 });
  const { host } = new URL(baseUrl);
  const refused = `No response from ${host}: connect ECONNREFUSED ${host}.`;
  const advice = ` If the service runs, its CORS_ORIGINS must list https://shop.example.`;
  for (const [origin, more] of [
    [undefined, ""],
    ["https://shop.example", advice],
    [baseUrl, ""],
  ]) {
    if (origin !== undefined) vi.stubGlobal("location", { origin });
    await expect(client.cancelOrder(1n)).rejects.toMatchObject({ message: refused + more });
  }
  vi.unstubAllGlobals();
  // Node combines the errors of all addresses in an `AggregateError` without a message.
  const cause = Object.assign(new AggregateError([]), { code: "ECONNREFUSED" });
  const refusal = clientWith(() => Promise.reject(new TypeError("", { cause }))).cancelOrder(1n);
  await expect(refusal).rejects.toThrow("No response from orders.example: ECONNREFUSED.");
});

test("does not send the key to the target of a redirect", async () => {
  let strayed = 0;
  const elsewhere = await serve((_, response) => {
    strayed += 1;
    response.writeHead(200, { "Content-Type": "application/json" }).end("[]");
  });
  const baseUrl = await serve((_, response) => {
    response.writeHead(307, { Location: `${elsewhere}/v1/store/orders` }).end();
  });
  const client = clientOf(globalThis, { baseUrl, retries: 0 });
  await expect(client.listOrders().all()).rejects.toMatchObject({ code: "unexpected_answer" });
  expect(strayed).toBe(0);
});

test("a loop over many orders needs no more memory than one over a few", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const usedBytes = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const orders = `{"id":9000000000000000000,"quantity":12},`.repeat(1_000);
  const parts = Array.from({ length: 40 }, () => orders);
  let count = 0;
  let firstBytes = 0;
  for await (const _ of clientWith(list("[", ...parts, '{"id":1}]')).listOrders()) {
    count += 1;
    if (count === 10_000) firstBytes = usedBytes();
    if (count === 40_000) expect(usedBytes() - firstBytes).toBeLessThan(2_000_000);
  }
  expect(count).toBe(40_001);
});
