import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { Order } from "../../src/client/order.ts";
import { failed, list, OPTIONS, ScriptedService, unreachable } from "./scripted-service.ts";

const EXTREMES =
  '[{"id":-9223372036854775808,"petId":9223372036854775807,"quantity":-0,"complete":false},{"id":9007199254740993,"shipDate":"2026-12-01T09:00:00.000Z"}]';

function clientOf(service: ScriptedService) {
  return createClient({ ...OPTIONS, fetch: service.fetch, retries: 0 });
}

async function readUntilFailure(orders: AsyncIterable<Order>) {
  const received: Order[] = [];
  try {
    for await (const order of orders) received.push(order);
  } catch (error) {
    return { received, error };
  }
  return { received, error: null };
}

/** Starts a real HTTP server and returns its URL. */
async function serve(listener: RequestListener, { isClosed = false } = {}): Promise<string> {
  const server = createServer(listener);
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  if (isClosed) server.close();
  return `http://127.0.0.1:${port}`;
}

test("int64 values arrive with every digit, however the body is divided into parts", async () => {
  for (let size = 1; size <= 40; size += 1) {
    const parts = EXTREMES.match(new RegExp(`.{1,${size}}`, "g")) ?? [];
    const service = new ScriptedService(list(...parts));
    expect(await clientOf(service).listOrders().all()).toEqual([
      {
        id: -9223372036854775808n,
        petId: 9223372036854775807n,
        quantity: 0n,
        complete: false,
      },
      { id: 9007199254740993n, shipDate: "2026-12-01T09:00:00.000Z" },
    ]);
  }
});

test("sends the key as a bearer token, to the path below the base URL", async () => {
  const service = new ScriptedService(list("[]"));
  const client = createClient({
    apiKey: "sord_test",
    baseUrl: "https://shop.example/api/",
    fetch: service.fetch,
  });
  expect(await client.listOrders().all()).toEqual([]);
  const [request] = service.requests;
  expect(request?.url).toBe("https://shop.example/api/v1/store/orders");
  expect(request?.method).toBe("GET");
  expect(request?.headers.get("Authorization")).toBe("Bearer sord_test");
});

test.each(["https://shop.example/v1", "https://shop.example/v1/", new URL("https://shop.example")])(
  "requests with the base URL %s go to /v1",
  async (baseUrl) => {
    const service = new ScriptedService(list("[]"));
    await createClient({ apiKey: "sord_test", baseUrl, fetch: service.fetch }).listOrders().all();
    expect(service.requests[0]?.url).toBe("https://shop.example/v1/store/orders");
  },
);

test("each iteration sends its own request, when it begins", async () => {
  const service = new ScriptedService(list('[{"id":1}]'), list('[{"id":2}]'));
  const orders = clientOf(service).listOrders();
  expect(service.requests).toHaveLength(0);
  expect(await orders.all()).toEqual([{ id: 1n }]);
  expect(await orders.all()).toEqual([{ id: 2n }]);
});

test.each([
  ["a missing closing bracket", ['[{"id":1},{"id":2}']],
  ["an order cut in two", ['[{"id":1},{"id":2},{"i']],
  ["a lost connection", ['[{"id":1},', '{"id":2},', new TypeError("terminated")]],
  ["a character that is not JSON", ['[{"id":1},', '{"id":2},', "?]"]],
  ["an element that is not an order", ['[{"id":1},', '{"id":2},', '{"id":"3"}]']],
  ["an element without an id", ['[{"id":1},', '{"id":2},', '{"petId":3}]']],
  ["bytes after the end", ['[{"id":1},', '{"id":2}]', "[]"]],
])("a list with %s throws an error", async (_, parts) => {
  const { received, error } = await readUntilFailure(
    clientOf(new ScriptedService(list(...parts))).listOrders(),
  );
  expect(error).toMatchObject({ name: "BrokenListError", code: "broken_list", status: 200 });
  expect(error).toHaveProperty("receivedCount", received.length);
  expect(received.length).toBeLessThanOrEqual(2);
});

test.each(["", "null", "5", "{}", '"[]"', '{"orders":[]}'])(
  "a body of %j is an error, not an empty list",
  async (text) => {
    const { error } = await readUntilFailure(
      clientOf(new ScriptedService(list(text))).listOrders(),
    );
    expect(error).toMatchObject({ code: "broken_list" });
  },
);

test("all() requests an incomplete list again; a loop throws", async () => {
  const broken = list('[{"id":1},');
  const service = new ScriptedService(broken, unreachable, list('[{"id":1}]'));
  const client = createClient({ ...OPTIONS, fetch: service.fetch });
  expect(await client.listOrders().all()).toEqual([{ id: 1n }]);
  expect(service.requests).toHaveLength(3);

  const once = new ScriptedService(broken, list('[{"id":1}]'));
  const { error } = await readUntilFailure(
    createClient({ ...OPTIONS, fetch: once.fetch }).listOrders(),
  );
  expect(error).toMatchObject({ code: "broken_list" });
  expect(once.requests).toHaveLength(1);
});

test("leaving the loop cancels the request", async () => {
  let ended = false;
  const service = new ScriptedService(({ signal }) => {
    signal?.addEventListener("abort", () => (ended = true));
    return list('[{"id":1},', '{"id":2},')(service.requests[0]!);
  });
  for await (const order of clientOf(service).listOrders()) {
    expect(order).toEqual({ id: 1n });
    break;
  }
  expect(ended).toBe(true);
});

test.each([false, true])(
  "an abort takes effect before the next order of the same part (oneMoment %s)",
  async (oneMoment) => {
    const abort = new AbortController();
    const received: Order[] = [];
    const service = new ScriptedService(list('[{"id":1},{"id":2},{"id":3}]'));
    const reading = (async () => {
      const { signal } = abort;
      for await (const order of clientOf(service).listOrders({ signal, oneMoment })) {
        received.push(order);
        abort.abort(new Error("enough"));
      }
    })();
    await expect(reading).rejects.toThrow("enough");
    expect(received).toEqual([{ id: 1n }]);
  },
);

test("accepts unknown fields", async () => {
  const service = new ScriptedService(list('[{"id":1,"weight":1.5,"tags":[1,{"a":null}]}]'));
  expect(await clientOf(service).listOrders().all()).toEqual([
    { id: 1n, weight: 1.5, tags: [1n, { a: null }] },
  ]);
});

test("recognizes a response that is not from the service", async () => {
  const page = () => new Response("<html>", { headers: { "Content-Type": "text/html" } });
  await expect(clientOf(new ScriptedService(page)).listOrders().all()).rejects.toMatchObject({
    code: "unexpected_answer",
    status: 200,
  });
  const refusal = failed(418, "teapot");
  await expect(clientOf(new ScriptedService(refusal)).listOrders().all()).rejects.toMatchObject({
    code: "unexpected_answer",
    status: 418,
  });
});

test("a refused connection is an error that names host and cause, and CORS only in a browser", async () => {
  const baseUrl = await serve(() => undefined, { isClosed: true });
  const client = createClient({ apiKey: "sord_test", baseUrl, retries: 0 });
  const message = async () => client.cancelOrder(1n).catch((error: Error) => error.message);
  const { host } = new URL(baseUrl);
  const refused = `No response from ${host}: connect ECONNREFUSED ${host}.`;
  expect(await message()).toBe(refused);
  vi.stubGlobal("location", { origin: "https://shop.example" });
  expect(await message()).toBe(
    `${refused} If the service runs, its CORS_ORIGINS must list https://shop.example.`,
  );
  vi.stubGlobal("location", { origin: baseUrl });
  expect(await message()).toBe(refused);
  vi.unstubAllGlobals();
});

test("names the cause if every address of a host refuses the connection", async () => {
  const service = new ScriptedService(() => {
    // Node's error has no message then.
    const cause = Object.assign(new AggregateError([]), { code: "ECONNREFUSED" });
    throw new TypeError("fetch failed", { cause });
  });
  await expect(clientOf(service).cancelOrder(1n)).rejects.toThrow(
    "No response from orders.example: ECONNREFUSED.",
  );
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
  const client = createClient({ apiKey: "sord_test", baseUrl, retries: 0 });
  await expect(client.listOrders().all()).rejects.toMatchObject({ code: "unexpected_answer" });
  expect(strayed).toBe(0);
});
