import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { CallOptions, ResponseInfo } from "../../src/client/options.ts";
import {
  cancelled,
  failed,
  list,
  OPTIONS,
  ScriptedService,
  silent,
  unreachable,
} from "./scripted-service.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const CALLS = ["listOrders", "cancelOrder", "cancelOrders"] as const;

/** Calls one operation, and advances the fake clock until the call has ended. */
async function call(
  operation: (typeof CALLS)[number],
  service: ScriptedService,
  options: CallOptions,
) {
  const client = createClient({ ...OPTIONS, fetch: service.fetch });
  const calls = {
    listOrders: async () => client.listOrders(options).all(),
    cancelOrder: () => client.cancelOrder(1n, options),
    cancelOrders: () => client.cancelOrders([1n], options),
  };
  const ended = Promise.allSettled([calls[operation]()]);
  await vi.runAllTimersAsync();
  return (await ended)[0];
}

function answerOf(operation: (typeof CALLS)[number]) {
  return operation === "listOrders" ? list("[]") : cancelled;
}

describe.each(CALLS)("%s", (operation) => {
  test("applies the option retries to one call", async () => {
    const service = new ScriptedService(unreachable);
    await call(operation, service, { retries: 2 });
    expect(service.requests).toHaveLength(3);
  });

  test("applies the option timeoutMs to one call", async () => {
    const startMs = performance.now();
    await call(operation, new ScriptedService(silent), { timeoutMs: 700, retries: 0 });
    expect(performance.now() - startMs).toBe(700);
  });

  test("sends the request id and additional headers with every request of the call", async () => {
    const service = new ScriptedService(unreachable, answerOf(operation));
    const headers = { traceparent: "00-1-2-01" };
    const outcome = await call(operation, service, { requestId: "copy_42", headers });
    expect(outcome.status).toBe("fulfilled");
    expect(service.requests.map((request) => Object.fromEntries(request.headers))).toEqual(
      Array.from({ length: 2 }, () => ({
        accept: "application/json",
        authorization: "Bearer sord_test",
        traceparent: "00-1-2-01",
        "x-request-id": "copy_42",
      })),
    );
  });

  test.each([
    [{ timeoutMs: 0 }, "timeoutMs"],
    [{ retries: -1 }, "retries"],
    [{ requestId: "" }, "requestId"],
    [{ requestId: "a b" }, "requestId"],
    [{ requestId: "a".repeat(256) }, "requestId"],
    [{ headers: { authorization: "Bearer other" } }, "apiKey"],
    [{ headers: { "if-none-match": '"1"' } }, "ifNoneMatch"],
    [{ headers: { "X-Request-ID": "1" } }, "requestId"],
    [{ headers: { ACCEPT: "text/html" } }, "Accept"],
  ])("refuses %o before any request", async (options, name) => {
    const service = new ScriptedService(answerOf(operation));
    const outcome = await call(operation, service, options);
    expect(outcome).toMatchObject({ reason: { message: expect.stringContaining(name) } });
    expect(service.requests).toHaveLength(0);
  });
});

const QUOTA = {
  RateLimit: '"minute";r=59;t=60, "day";r=999;t=86400',
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
};

describe("limits", () => {
  test("are those in the headers of the last response", async () => {
    const used = { ...QUOTA, RateLimit: '"minute";r=0;t=31, "day";r=940;t=80000' };
    const service = new ScriptedService(
      () => new Response(null, { status: 204, headers: QUOTA }),
      failed(429, "rate_limit_exceeded", { ...used, "Retry-After": "31" }),
    );
    const client = createClient({ ...OPTIONS, fetch: service.fetch, retries: 0 });
    expect(client.limits).toBeNull();
    await client.cancelOrder(1n);
    expect(client.limits).toEqual({
      windows: [
        { name: "minute", limit: 60, lengthSeconds: 60, remaining: 59, resetSeconds: 60 },
        { name: "day", limit: 1_000, lengthSeconds: 86_400, remaining: 999, resetSeconds: 86_400 },
      ],
      retryAfterSeconds: null,
      answeredAt: new Date(),
    });
    vi.advanceTimersByTime(1_000);
    await expect(client.cancelOrder(2n)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    expect(client.limits).toMatchObject({
      windows: [{ remaining: 0, resetSeconds: 31 }, { remaining: 940 }],
      retryAfterSeconds: 31,
      answeredAt: new Date(),
    });
  });

  test("do not change if no response arrives or the response is from a proxy", async () => {
    const service = new ScriptedService(
      () => new Response(null, { status: 204, headers: QUOTA }),
      unreachable,
      () => new Response("Bad Gateway", { status: 502, headers: { "Retry-After": "1" } }),
    );
    const client = createClient({ ...OPTIONS, fetch: service.fetch, retries: 0 });
    await client.cancelOrder(1n);
    const { limits } = client;
    await expect(client.cancelOrder(2n)).rejects.toMatchObject({ code: "network_error" });
    await expect(client.cancelOrder(3n)).rejects.toMatchObject({ status: 502 });
    expect(client.limits).toBe(limits);
  });
});

describe("onResponse", () => {
  test("is called for each response, also of retries, after client.limits is updated", async () => {
    const service = new ScriptedService(
      unreachable,
      failed(503, "service_unavailable", { "Retry-After": "1", ...QUOTA }),
      async () => {
        await new Promise((resolve) => setTimeout(resolve, 40));
        return cancelled();
      },
    );
    const responses: ResponseInfo[] = [];
    const remaining: unknown[] = [];
    const client = createClient({
      ...OPTIONS,
      fetch: service.fetch,
      onResponse: (response) => {
        responses.push(response);
        remaining.push(client.limits?.windows[0]?.remaining);
      },
    });
    const ended = client.cancelOrder(1n);
    await vi.runAllTimersAsync();
    await ended;
    const request = { method: "DELETE", url: "https://orders.example/v1/store/orders/1" };
    expect(responses).toMatchObject([
      { ...request, status: 503, elapsedMs: 0 },
      { ...request, status: 204, elapsedMs: 40 },
    ]);
    expect(responses[0]?.headers.get("X-Request-Id")).toBe("request-1");
    expect(remaining).toEqual([59, 59]);
  });

  test("ends the request and the call if it throws, and the call throws its error", async () => {
    const mine = new Error("mine");
    const service = new ScriptedService(list("[]"));
    const onResponse = () => {
      throw mine;
    };
    const client = createClient({ ...OPTIONS, fetch: service.fetch, onResponse });
    await expect(client.listOrders().all()).rejects.toBe(mine);
    expect(service.requests).toHaveLength(1);
    expect(service.requests[0]?.signal?.aborted).toBe(true);
  });
});
