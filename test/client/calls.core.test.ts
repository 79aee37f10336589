import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { ApiError } from "../../src/client/errors.ts";
import type { CallOptions, ClientOptions, ResponseInfo, Retry } from "../../src/client/options.ts";
import {
  type Answer,
  cancelled,
  clientOf,
  failed,
  list,
  OPTIONS,
  quota,
  roomy,
  ScriptedService,
  settled,
  silent,
  unreachable,
} from "./scripted-service.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  // The mocks must be restored before the clock. If the clock were restored first, restoring a spy
  // on `setTimeout` would reinstall the fake timer.
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const JSON_TYPE = { "Content-Type": "application/json" };
const URL_OF_1 = "https://orders.example/v1/store/orders/1";

function refused(seconds: number) {
  return failed(429, "rate_limit_exceeded", { "Retry-After": String(seconds) });
}

/** Returns a 429 answer. Its body fails with `error`, or never ends if there is no error. */
function refusedInPart(seconds: number, error?: Error) {
  const headers = { "Retry-After": String(seconds) };
  const start = (body: ReadableStreamDefaultController) => error && body.error(error);
  return () => new Response(new ReadableStream({ start }), { status: 429, headers });
}

/** Never returns a response, even if the request is aborted. */
function ignoresSignal(): Promise<Response> {
  return new Promise(() => undefined);
}

type Run = (client: ReturnType<typeof clientOf>, options: CallOptions) => Promise<unknown>;
const CALLS: readonly [string, Answer, Run][] = [
  ["listOrders", list("[]"), async (client, options) => client.listOrders(options).all()],
  ["cancelOrder", cancelled, (client, options) => client.cancelOrder(1n, options)],
  ["cancelOrders", cancelled, (client, options) => client.cancelOrders([1n], options)],
];

describe("cancelOrder", () => {
  test("sends each id with every digit, and refuses any other before a request", async () => {
    await fc.assert(
      fc.asyncProperty(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), async (id) => {
        const service = new ScriptedService(cancelled);
        const isSafe = Number.isSafeInteger(Number(id));
        for (const one of [id, String(id), ...(isSafe ? [Number(id)] : [])]) {
          expect(await clientOf(service).cancelOrder(one)).toBe("cancelled");
          const url = `https://orders.example/v1/store/orders/${id}`;
          expect(service.requests.at(-1)).toMatchObject({ method: "DELETE", url });
        }
      }),
    );
    const service = new ScriptedService(cancelled);
    for (const id of [2n ** 63n, 2 ** 53, 1.5, NaN, "1/../2"]) {
      await expect(clientOf(service).cancelOrder(id)).rejects.toThrow(RangeError);
      await expect(clientOf(service).cancelOrders([1n, id])).rejects.toThrow(RangeError);
    }
    expect(service.requests).toHaveLength(0);
  });

  test.each([
    [401, "unauthorized"],
    [404, "order_not_found"],
    [404, "not_found"],
    [405, "method_not_allowed"],
    [409, "order_already_shipped"],
    [412, "precondition_failed"],
  ])("throws an error with the code of a %i %s, and does not retry", async (status, code) => {
    const service = new ScriptedService(failed(status, code));
    const details = { requestId: "request-1", retryAfterSeconds: null };
    const error = { name: "ApiError", code, status, message: `about ${code}`, ...details };
    await expect(clientOf(service).cancelOrder(1n)).rejects.toMatchObject(error);
    expect(service.requests).toHaveLength(1);
  });

  const gone = failed(404, "order_not_found");
  const shipped = failed(409, "order_already_shipped");
  const badGateway = () => new Response("Bad Gateway", { status: 502 });
  test.each([
    ["lost connection", [unreachable, gone], { value: "cancelled_or_gone" }],
    ["500", [failed(500, "internal_error"), gone], { value: "cancelled_or_gone" }],
    ["503", [failed(503, "service_unavailable"), gone], { value: "cancelled_or_gone" }],
    ["lost connection and a 429", [unreachable, refused(0), gone], { value: "cancelled_or_gone" }],
    ["429", [refused(0), gone], { reason: { code: "order_not_found" } }],
    ["lost connection", [unreachable, shipped], { reason: { code: "order_already_shipped" } }],
    ["proxy's 502", [badGateway, cancelled], { value: "cancelled" }],
  ])("says after a %s what may have happened", async (_, answers, outcome) => {
    const client = clientOf(new ScriptedService(...answers));
    expect(await settled(client.cancelOrder(1n))).toMatchObject(outcome);
  });
});

describe("a retry", () => {
  test.each([0, 0.5, 0.999_999])(
    "never comes before Retry-After, even if timers fire early (jitter %d)",
    async (random) => {
      vi.spyOn(Math, "random").mockReturnValue(random);
      const setTimer = globalThis.setTimeout;
      vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms: number) =>
        setTimer(work, ms > 500 ? ms - 5 : ms)) as typeof setTimeout);
      const lost = refusedInPart(1, new TypeError("terminated"));
      const service = new ScriptedService(refused(31), lost, refusedInPart(2), cancelled);
      const errors: Retry["error"][] = [];
      const onRetry = ({ error }: Retry) => errors.push(error);
      const client = clientOf(service, { timeoutMs: 100, onRetry });
      expect(await settled(client.cancelOrder(1n))).toMatchObject({ value: "cancelled" });
      const codes = ["rate_limit_exceeded", "network_error", "timeout"];
      expect(errors).toMatchObject(codes.map((code) => ({ code, status: 429 })));
      expect(errors[1]?.message).toBe("No complete response from orders.example: terminated.");
      const limits = [31_250, 1_500, 100 + 3_000];
      expect(service.gapsMs).toHaveLength(limits.length);
      for (const [index, least] of [31_000, 1_000, 100 + 2_000].entries()) {
        expect(service.gapsMs[index]).toBeGreaterThanOrEqual(least);
        expect(service.gapsMs[index]).toBeLessThanOrEqual(limits[index]!);
      }
    },
  );

  test.each([
    ...["1.5", "-1", "+5", "120.5", "5, 10", "2027-01-15"].map((text) => [text, "", null] as const),
    ["60", "", 60],
    ["Fri, 15 Jan 2027 08:01:00 GMT", "", 60],
    ["Friday, 15-Jan-27 08:01:00 GMT", "", 60],
    ["Fri Jan 15 08:01:00 2027", "", 60],
    ["Sunday, 06-Nov-94 08:49:37 GMT", "", 0],
    ["Fri, 15 Jan 2027 08:01:00 GMT", "Fri, 15 Jan 2027 07:00:30 GMT", 3_630],
    ["Fri, 15 Jan 2027 08:01:00 GMT", "Fri, 15 Jan 2027 09:00:30 GMT", 0],
  ] as const)("takes from Retry-After %j with Date %j %o seconds", async (text, date, seconds) => {
    vi.setSystemTime(Date.parse("2027-01-15T08:00:00.500Z"));
    const headers = { "Retry-After": text, ...(date && { Date: date }) };
    const service = new ScriptedService(failed(503, "service_unavailable", headers));
    const refusal = clientOf(service, { retries: 0 }).cancelOrder(1n);
    const error: ApiError = await refusal.catch((reason) => reason);
    expect(error.retryAfterSeconds).toBe(seconds);
  });

  test.each([0, 0.5, 0.999])(
    "is announced, and backs off with full jitter: up to a limit that doubles (jitter %d)",
    async (share) => {
      vi.spyOn(Math, "random").mockReturnValue(share);
      const delays = [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map((ms) => ms * share);
      const service = new ScriptedService(unreachable);
      const retries: Retry[] = [];
      const onRetry = (retry: Retry) => retries.push(retry);
      const client = clientOf(service, { retries: delays.length, onRetry });
      const error = { code: "network_error", status: null };
      expect(await settled(client.listOrders().all())).toMatchObject({ reason: error });
      expect(retries).toMatchObject(
        delays.map((delayMs, index) => ({ attempt: index + 1, delayMs, error })),
      );
      expect(service.gapsMs).toHaveLength(delays.length);
      for (const [index, gap] of service.gapsMs.entries()) {
        expect(gap - delays[index]!).toBeGreaterThanOrEqual(0);
        expect(gap - delays[index]!).toBeLessThanOrEqual(2);
      }
    },
  );

  test.each([
    [86_400, 1],
    [50, 3],
  ])("of %d s does not exceed maxElapsedMs together with earlier ones", async (seconds, sent) => {
    const service = new ScriptedService(refused(seconds));
    expect(await settled(clientOf(service).listOrders().all())).toMatchObject({
      reason: { code: "rate_limit_exceeded", retryAfterSeconds: seconds },
    });
    expect(service.requests).toHaveLength(sent);
    const refusals = Array.from({ length: 3 }, () => refused(seconds));
    const batch = clientOf(new ScriptedService(...refusals, cancelled)).cancelOrders([1n]);
    expect(await settled(batch)).toMatchObject({ value: { length: 1 } });
  });

  const BROKEN = list('[{"id":1,"quantity":1},', '{"id":2}');
  test.each([
    ["comes after an incomplete list", [BROKEN, unreachable, list('[{"id":3}]')], [3n], null],
    ["comes twice at most", [BROKEN], [], { code: "broken_list", receivedCount: 2 }],
  ])("%s with oneMoment, before the loop gets an order", async (_, answers, ids, error) => {
    const service = new ScriptedService(...answers);
    const orders = clientOf(service, { retries: 2 }).listOrders({ oneMoment: true });
    const received: bigint[] = [];
    const loop = async () => {
      for await (const { id } of orders) received.push(id);
    };
    const outcome = await settled(loop());
    expect(outcome).toMatchObject(error === null ? { status: "fulfilled" } : { reason: error });
    expect(received).toEqual(ids);
    expect(service.requests).toHaveLength(3);
  });
});

describe("waiting", () => {
  test.each([
    [900, { status: "fulfilled", value: { length: 9 } }],
    [1_100, { reason: { code: "broken_list", cause: { code: "timeout" } } }],
  ])("ends %d ms after the last part of a list, not of a slow one", async (gapMs, outcome) => {
    const texts = ['[{"id":1}', ...[2, 3, 4, 5, 6, 7, 8, 9].map((id) => `,{"id":${id}}`), "]"];
    const stream = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, gapMs));
        controller.enqueue(new TextEncoder().encode(texts.shift()));
        if (texts.length === 0) controller.close();
      },
    });
    const service = new ScriptedService(() => new Response(stream, { headers: JSON_TYPE }));
    const client = clientOf(service, { timeoutMs: 1_000, retries: 0 });
    expect(await settled(client.listOrders().all())).toMatchObject(outcome);
  });

  test.each([
    ["a response", 0, silent],
    ["a retry", 1, refused(60)],
    ["the response to a fetch that ignores the signal", 0, ignoresSignal],
    ["a part of a list", 0, () => new Response(new ReadableStream(), { headers: JSON_TYPE })],
  ])("for %s ends at once when the call is aborted", async (_, retries, answer) => {
    const service = new ScriptedService(answer);
    const abort = new AbortController();
    setTimeout(() => abort.abort("enough"), 5_000);
    const startMs = performance.now();
    const orders = clientOf(service, { retries }).listOrders({ signal: abort.signal });
    const outcome = await settled(orders[Symbol.asyncIterator]().next());
    expect(outcome).toMatchObject({ status: "rejected", reason: "enough" });
    expect(performance.now() - startMs).toBe(5_000);
    expect(service.requests).toHaveLength(1);
  });

  test("for a retry does not begin if onRetry aborts the call", async () => {
    const abort = new AbortController();
    const onRetry = () => abort.abort("enough");
    const startMs = performance.now();
    const client = clientOf(new ScriptedService(refused(60)), { onRetry });
    const outcome = await settled(client.cancelOrder(1n, { signal: abort.signal }));
    expect(outcome).toMatchObject({ reason: "enough" });
    expect(performance.now()).toBe(startMs);
  });
});

describe.each(CALLS)("%s", (operation, answer, run) => {
  test.each([silent, ignoresSignal])(
    "applies retries and timeoutMs to a call (%o)",
    async (silence) => {
      vi.spyOn(Math, "random").mockReturnValue(0);
      const service = new ScriptedService(silence);
      const startMs = performance.now();
      const outcome = await settled(run(clientOf(service), { timeoutMs: 700, retries: 1 }));
      const timeout = { code: "timeout" };
      const reason = operation === "cancelOrders" ? { cause: timeout } : timeout;
      expect(outcome).toMatchObject({ reason });
      expect(service.requests).toHaveLength(2);
      expect(performance.now() - startMs).toBe(2 * 700);
    },
  );

  test("sends its headers with every request, and leaves no listener on the caller's signal", async () => {
    const service = new ScriptedService(unreachable, refused(1), answer);
    const headers = { traceparent: "00-1-2-01" };
    const { signal } = new AbortController();
    const [added, removed] = [
      vi.spyOn(signal, "addEventListener"),
      vi.spyOn(signal, "removeEventListener"),
    ];
    const outcome = await settled(
      run(clientOf(service), { requestId: "copy_42", headers, signal }),
    );
    expect(outcome.status).toBe("fulfilled");
    const sent = {
      accept: "application/json",
      authorization: "Bearer sord_test",
      traceparent: "00-1-2-01",
      "x-request-id": "copy_42",
    };
    const received = service.requests.map((request) => Object.fromEntries(request.headers));
    expect(received).toEqual([sent, sent, sent]);
    const listeners = [added, removed].map(({ mock }) => new Set(mock.calls.map(([, f]) => f)));
    expect(listeners[0]?.size).toBeGreaterThan(0);
    expect(listeners[1]).toEqual(listeners[0]);
  });

  test.each([
    [{ timeoutMs: 0 }, "timeoutMs"],
    [{ timeout: 5 }, "timeout: unknown option"],
    [{ requestId: 5 }, "requestId"],
    [{ retries: -1 }, "retries"],
    [{ requestId: "" }, "requestId"],
    [{ requestId: "a b" }, "requestId"],
    [{ requestId: "a".repeat(256) }, "requestId"],
    [{ headers: { authorization: "Bearer other" } }, "apiKey"],
    [{ headers: { "if-none-match": '"1"' } }, "ifNoneMatch"],
    [{ headers: { "X-Request-ID": "1" } }, "requestId"],
    [{ headers: { ACCEPT: "text/html" } }, "Accept"],
    [{ signal: AbortSignal.abort(new Error("enough")) }, "enough"],
  ])("refuses %o before any request", async (options, name) => {
    const service = new ScriptedService(answer);
    const outcome = await settled((async () => run(clientOf(service), options as CallOptions))());
    expect(outcome).toMatchObject({ reason: { message: expect.stringContaining(name) } });
    expect(service.requests).toHaveLength(0);
  });
});

test("limits are those in the last response that has them", async () => {
  const used = { ...quota(940), RateLimit: '"minute";r=0;t=31, "day";r=940;t=80000' };
  const malformed = { "Retry-After": "1", RateLimit: '"' };
  const service = new ScriptedService(
    roomy,
    failed(429, "rate_limit_exceeded", { ...used, "Retry-After": "31" }),
    unreachable,
    () => new Response("Bad Gateway", { status: 502, headers: malformed }),
  );
  const client = clientOf(service, { retries: 0 });
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
  const { limits } = client;
  expect(limits).toMatchObject({
    windows: [{ remaining: 0, resetSeconds: 31 }, { remaining: 940 }],
    retryAfterSeconds: 31,
    answeredAt: new Date(),
  });
  await expect(client.cancelOrder(2n)).rejects.toMatchObject({ code: "network_error" });
  await expect(client.cancelOrder(3n)).rejects.toMatchObject({ status: 502 });
  expect(client.limits).toBe(limits);
});

test("onResponse is called for each response, after limits is updated; its error ends the call", async () => {
  const service = new ScriptedService(
    unreachable,
    failed(503, "service_unavailable", { "Retry-After": "1", ...quota(999) }),
    () => new Promise((resolve) => setTimeout(() => resolve(cancelled()), 40)),
  );
  const responses: (ResponseInfo & { remaining: unknown })[] = [];
  const client = clientOf(service, {
    onResponse: (response) => {
      responses.push({ ...response, remaining: client.limits?.windows[0]?.remaining });
      if (responses.length === 3) throw new Error("mine");
    },
  });
  await settled(client.cancelOrder(1n));
  const about = { method: "DELETE", url: URL_OF_1, remaining: 59 };
  expect(responses).toMatchObject([
    { ...about, status: 503, elapsedMs: 0 },
    { ...about, status: 204, elapsedMs: 40 },
  ]);
  expect(responses[0]?.headers.get("X-Request-Id")).toBe("request-1");
  expect(await settled(client.cancelOrder(1n))).toMatchObject({ reason: { message: "mine" } });
  expect(service.requests).toHaveLength(4);
  expect(service.requests[3]?.signal?.aborted).toBe(true);
});

test.each<[object, string]>([
  [{ apiKey: "" }, "apiKey"],
  [{ apiKey: "sord_secret sord_secret" }, "apiKey"],
  [{ apiKey: "sord_secret\n" }, "apiKey"],
  [{ baseUrl: "orders.example" }, "baseUrl"],
  [{ baseUrl: "ftp://orders.example" }, "baseUrl"],
  [{ baseUrl: "https://key@orders.example" }, "baseUrl"],
  [{ baseUrl: "https://orders.example?key=1" }, "baseUrl"],
  [{ timeoutMs: 0 }, "timeoutMs"],
  [{ timeoutMs: 2 ** 31 }, "timeoutMs"],
  [{ retries: -1 }, "retries"],
  [{ retries: 1.5 }, "retries"],
  [{ maxElapsedMs: NaN }, "maxElapsedMs"],
  [{ pacing: "yes" }, "pacing"],
  [{ retry: 3 }, "retry: unknown option"],
  [{ onRetry: 1 }, "onRetry"],
])("wrong options %o are refused without naming the key", (options, name) => {
  const create = () => createClient({ ...OPTIONS, ...(options as ClientOptions) });
  expect(create).toThrow(name);
  expect(create).not.toThrow(/secret/);
});
