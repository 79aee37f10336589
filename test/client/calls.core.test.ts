import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
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
const URL_OF = "https://orders.example/v1/store/orders";

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

type Run = (client: ReturnType<typeof clientOf>, options?: CallOptions) => Promise<unknown>;
const cancel: Run = (client, options) => client.cancelOrder(1n, options);
const listAll: Run = async (client, options) => client.listOrders(options).all();
const CALLS: readonly [string, Answer, Run][] = [
  ["listOrders", list("[]"), listAll],
  ["cancelOrder", cancelled, cancel],
  ["cancelOrders", cancelled, (client, options) => client.cancelOrders([1n], options)],
];

/** Calls a service that gives these answers. Advances the clock until the call has ended. */
async function attempt(answers: readonly Answer[], run = cancel, options?: Partial<ClientOptions>) {
  const service = new ScriptedService(...answers);
  const startMs = performance.now();
  const outcome = await settled((async () => run(clientOf(service, options)))());
  return { outcome, service, sent: service.requests.length, tookMs: performance.now() - startMs };
}

describe("cancelOrder", () => {
  test("sends each id with every digit, and refuses any other before a request", async () => {
    const service = new ScriptedService(cancelled);
    await fc.assert(
      fc.asyncProperty(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), async (id) => {
        const isSafe = Number.isSafeInteger(Number(id));
        for (const one of [id, String(id), ...(isSafe ? [Number(id)] : [])]) {
          expect(await clientOf(service).cancelOrder(one)).toBe("cancelled");
          expect(service.requests.at(-1)).toMatchObject({
            method: "DELETE",
            url: `${URL_OF}/${id}`,
          });
        }
      }),
    );
    const before = service.requests.length;
    for (const id of [2n ** 63n, 2 ** 53, 1.5, NaN, "1/../2"]) {
      await expect(clientOf(service).cancelOrder(id)).rejects.toThrow(RangeError);
      await expect(clientOf(service).cancelOrders([1n, id])).rejects.toThrow(RangeError);
    }
    expect(service.requests).toHaveLength(before);
  });

  test.each([
    [401, "unauthorized"],
    [404, "order_not_found"],
    [409, "order_already_shipped"],
  ])("throws an error with the code of a %i %s, and does not retry", async (status, code) => {
    const { outcome, sent } = await attempt([failed(status, code)]);
    const details = { requestId: "request-1", retryAfterSeconds: null };
    const reason = { name: "ApiError", code, status, message: `about ${code}`, ...details };
    expect({ outcome, sent }).toMatchObject({ outcome: { reason }, sent: 1 });
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
    expect(await attempt(answers)).toMatchObject({ outcome });
  });
});

describe("a retry", () => {
  test.each([0, 0.5, 0.999_999].flatMap((random) => [[random, false] as const, [random, true]]))(
    "comes after Retry-After and a jitter, even if timers fire early (jitter %d, pacing %s)",
    async (random, pacing) => {
      vi.spyOn(Math, "random").mockReturnValue(random);
      const setTimer = globalThis.setTimeout;
      vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms: number) =>
        setTimer(work, ms > 500 ? ms - 5 : ms)) as typeof setTimeout);
      const lost = refusedInPart(1, new TypeError("terminated"));
      const answers = [refused(31), lost, refusedInPart(2), cancelled];
      const errors: Retry["error"][] = [];
      const onRetry = ({ error }: Retry) => errors.push(error);
      const { outcome, service } = await attempt(answers, cancel, {
        timeoutMs: 100,
        onRetry,
        pacing,
      });
      expect(outcome).toMatchObject({ value: "cancelled" });
      const codes = ["rate_limit_exceeded", "network_error", "timeout"];
      expect(errors).toMatchObject(codes.map((code) => ({ code, status: 429 })));
      expect(errors[1]?.message).toBe("No complete response from orders.example: terminated.");
      // A paced call waits from the arrival of the headers, others from the end of the timeout.
      for (const [index, least] of [31_000, 1_000, pacing ? 2_000 : 2_100].entries()) {
        const lateMs = service.gapsMs[index]! - least - 250 * 2 ** index * random;
        expect(lateMs).toBeGreaterThanOrEqual(-1);
        expect(lateMs).toBeLessThanOrEqual(6);
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
    const unavailable = failed(503, "service_unavailable", headers);
    const { outcome } = await attempt([unavailable], cancel, { retries: 0 });
    expect(outcome).toMatchObject({ reason: { retryAfterSeconds: seconds } });
  });

  test.each([0, 0.5, 0.999])(
    "is announced, and backs off with full jitter: up to a limit that doubles (jitter %d)",
    async (share) => {
      vi.spyOn(Math, "random").mockReturnValue(share);
      const delays = [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map((ms) => ms * share);
      const seen: Retry[] = [];
      const options = { retries: delays.length, onRetry: (retry: Retry) => seen.push(retry) };
      const { outcome, service } = await attempt([unreachable], listAll, options);
      const error = { code: "network_error", status: null };
      expect(outcome).toMatchObject({ reason: error });
      const retries = delays.map((delayMs, index) => ({ attempt: index + 1, delayMs, error }));
      expect(seen).toMatchObject(retries);
      expect(service.gapsMs).toHaveLength(delays.length);
      const lateMs = service.gapsMs.map((gap, index) => gap - delays[index]!);
      expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...lateMs)).toBeLessThanOrEqual(2);
    },
  );

  test.each([
    [86_400, 1],
    [50, 3],
  ])("of %d s does not exceed maxElapsedMs together with earlier ones", async (seconds, sent) => {
    const reason = { code: "rate_limit_exceeded", retryAfterSeconds: seconds };
    const refusal = refused(seconds);
    expect(await attempt([refusal], listAll)).toMatchObject({ outcome: { reason }, sent });
    const batch: Run = (client) => client.cancelOrders([1n]);
    const outcome = { value: { length: 1 } };
    expect(await attempt([refusal, refusal, cancelled], batch)).toMatchObject({ outcome });
  });

  const BROKEN = list('[{"id":1,"quantity":1},', '{"id":2}');
  test.each([
    ["comes after an incomplete list", [BROKEN, unreachable, list('[{"id":3}]')], [3n], {}],
    ["comes twice at most", [BROKEN], [], { reason: { code: "broken_list", receivedCount: 2 } }],
  ])("%s with oneMoment, before the loop gets an order", async (_, answers, ids, outcome) => {
    const received: bigint[] = [];
    const loop: Run = async (client) => {
      for await (const { id } of client.listOrders({ oneMoment: true })) received.push(id);
    };
    expect(await attempt(answers, loop, { retries: 2 })).toMatchObject({ outcome, sent: 3 });
    expect(received).toEqual(ids);
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
    const answer = () => new Response(stream, { headers: JSON_TYPE });
    const options = { timeoutMs: 1_000, retries: 0 };
    expect(await attempt([answer], listAll, options)).toMatchObject({ outcome });
  });

  test.each([
    ["a response", 0, silent, 5_000],
    ["a retry", 1, refused(60), 5_000],
    ["a retry that onRetry aborts", 2, refused(60), 0],
    ["the response to a fetch that ignores the signal", 0, ignoresSignal, 5_000],
    [
      "a part of a list",
      0,
      () => new Response(new ReadableStream(), { headers: JSON_TYPE }),
      5_000,
    ],
  ])("for %s ends at once when the call is aborted", async (_, retries, answer, tookMs) => {
    const abort = new AbortController();
    if (tookMs > 0) setTimeout(() => abort.abort("enough"), tookMs);
    const first: Run = (client) =>
      client.listOrders({ signal: abort.signal })[Symbol.asyncIterator]().next();
    const onRetry = () => tookMs === 0 && abort.abort("enough");
    const seen = await attempt([answer], first, { retries, onRetry });
    expect(seen).toMatchObject({ outcome: { reason: "enough" }, tookMs, sent: 1 });
  });
});

describe.each(CALLS)("%s", (operation, answer, run) => {
  test.each([silent, ignoresSignal])(
    "applies retries and timeoutMs to a call (%o)",
    async (one) => {
      vi.spyOn(Math, "random").mockReturnValue(0);
      const limited: Run = (client) => run(client, { timeoutMs: 700, retries: 1 });
      const timeout = { code: "timeout" };
      const reason = operation === "cancelOrders" ? { cause: timeout } : timeout;
      const seen = await attempt([one], limited);
      expect(seen).toMatchObject({ outcome: { reason }, sent: 2, tookMs: 2 * 700 });
    },
  );

  test("sends its headers with every request, and leaves no listener on the caller's signal", async () => {
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, "addEventListener");
    const removed = vi.spyOn(signal, "removeEventListener");
    const options = { requestId: "copy_42", headers: { traceparent: "00-1-2-01" }, signal };
    const withOptions: Run = (client) => run(client, options);
    const { outcome, service } = await attempt([unreachable, refused(1), answer], withOptions);
    expect(outcome.status).toBe("fulfilled");
    const sent = {
      accept: "application/json",
      authorization: "Bearer sord_test",
      traceparent: "00-1-2-01",
      "x-request-id": "copy_42",
    };
    const received = service.requests.map(({ headers }) => Object.fromEntries(headers));
    expect(received).toEqual([sent, sent, sent]);
    const [on, off] = [added, removed].map(({ mock }) => new Set(mock.calls.map(([, f]) => f)));
    expect(on?.size).toBeGreaterThan(0);
    expect(off).toEqual(on);
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
    const { outcome, sent } = await attempt([answer], (c) => run(c, options as CallOptions));
    expect(outcome).toMatchObject({ reason: { message: expect.stringContaining(name) } });
    expect(sent).toBe(0);
  });
});

test.each([0, -1, 1.5, NaN, 1_001])("a concurrency of %d is refused", async (concurrency) => {
  const batch: Run = (client) => client.cancelOrders([1n], { concurrency });
  const outcome = { reason: { message: expect.stringContaining("concurrency") } };
  expect(await attempt([cancelled], batch)).toMatchObject({ outcome, sent: 0 });
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
  const answeredAt = new Date();
  for (const error of [
    { code: "rate_limit_exceeded" },
    { code: "network_error" },
    { status: 502 },
  ]) {
    await expect(client.cancelOrder(2n)).rejects.toMatchObject(error);
    const windows = [{ remaining: 0, resetSeconds: 31 }, { remaining: 940 }];
    expect(client.limits).toMatchObject({ windows, retryAfterSeconds: 31, answeredAt });
    vi.advanceTimersByTime(1_000);
  }
});

test("onResponse is called for each response, after limits is updated; its error ends the call", async () => {
  const slow: Answer = () => new Promise((resolve) => setTimeout(() => resolve(cancelled()), 40));
  const unavailable = failed(503, "service_unavailable", { "Retry-After": "1", ...quota(999) });
  const service = new ScriptedService(unreachable, unavailable, slow);
  const responses: (ResponseInfo & { remaining: unknown })[] = [];
  const client = clientOf(service, {
    onResponse: (response) => {
      responses.push({ ...response, remaining: client.limits?.windows[0]?.remaining });
      if (responses.length === 3) throw new Error("mine");
    },
  });
  await settled(client.cancelOrder(1n));
  const about = { method: "DELETE", url: `${URL_OF}/1`, remaining: 59 };
  expect(responses).toMatchObject([
    { ...about, status: 503, elapsedMs: 0 },
    { ...about, status: 204, elapsedMs: 40 },
  ]);
  expect(responses[0]?.headers.get("X-Request-Id")).toBe("request-1");
  expect(await settled(client.cancelOrder(1n))).toMatchObject({ reason: { message: "mine" } });
  expect(service.requests).toHaveLength(4);
  expect(service.requests[3]?.signal?.aborted).toBe(true);
});

const OTHER_TYPES = {
  timeoutMs: 2 ** 31,
  retries: 1.5,
  maxElapsedMs: NaN,
  pacing: "yes",
  onRetry: 1,
};
test.each([
  ...["", "sord_secret sord_secret", "sord_secret\n"].map((apiKey) => ({ apiKey })),
  ...["orders.example", "ftp://a.example", "https://key@a.example", "https://a.example?key=1"].map(
    (baseUrl) => ({ baseUrl }),
  ),
  ...Object.entries(OTHER_TYPES).map(([name, value]) => ({ [name]: value })),
  { timeoutMs: 0 },
  { retries: -1 },
  { retry: 3 },
])("wrong options %o are refused without naming the key", (options) => {
  const create = () => createClient({ ...OPTIONS, ...(options as object) });
  expect(create).toThrow(Object.keys(options)[0]);
  expect(create).not.toThrow(/secret/);
});
