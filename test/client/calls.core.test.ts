import { getEventListeners } from "node:events";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { CallOptions, ClientOptions, ResponseInfo, Retry } from "../../src/client/options.ts";
import {
  type Answer,
  cancelled,
  clientOf,
  failed,
  ignoresSignal,
  list,
  OPTIONS,
  quota,
  roomy,
  ScriptedService,
  settled,
  unreachable,
} from "./scripted-service.ts";

// Mocks first: if the clock were replaced first, restoring a spy on `setTimeout` would bring the old
// clock back.
beforeEach(() => void vi.restoreAllMocks().unstubAllGlobals().useFakeTimers());

const URL_OF = "https://orders.example/v1/store/orders";

const refused = (seconds: number) =>
  failed(429, "rate_limit_exceeded", { "Retry-After": String(seconds) });

/** Returns a 429 answer. Its body fails with `error`, or never ends if there is no error. */
function refusedInPart(seconds: number, error?: Error) {
  const headers = { "Retry-After": String(seconds) };
  const start = (body: ReadableStreamDefaultController) => error && body.error(error);
  return () => new Response(new ReadableStream({ start }), { status: 429, headers });
}

type Run = (client: ReturnType<typeof clientOf>, options?: CallOptions) => Promise<unknown>;
const cancel: Run = (client, options) => client.cancelOrder(1n, options);
const listAll: Run = async (client, options) => client.listOrders(options).all();
const batch: Run = (client, options) => client.cancelOrders([1n], options);
const look: Run = (client, options) => client.quota(options);

/** Calls a service that gives these answers. Advances the clock until the call has ended. */
async function attempt(answers: readonly Answer[], run = cancel, options?: Partial<ClientOptions>) {
  const service = new ScriptedService(...answers);
  const startMs = performance.now();
  let tookMs = 0;
  const call = (async () => run(clientOf(service, options)))();
  const outcome = await settled(call.finally(() => (tookMs = performance.now() - startMs)));
  expect(performance.now() - startMs, "no timer outlives the call").toBe(tookMs);
  return { outcome, service, sent: service.requests.length, tookMs };
}

test("cancelOrder sends every digit of an id, and refuses what is no int64 before a request", async () => {
  const service = new ScriptedService(cancelled);
  const client = clientOf(service);
  for (const id of [-(2n ** 63n), "9223372036854775807", -42]) {
    expect(await client.cancelOrder(id)).toBe("cancelled");
    expect(service.requests.at(-1)).toMatchObject({ method: "DELETE", url: `${URL_OF}/${id}` });
  }
  for (const id of [2n ** 63n, 2 ** 53, "1/../2"]) {
    await expect(client.cancelOrder(id)).rejects.toThrow(RangeError);
    await expect(client.cancelOrders([1n, id])).rejects.toThrow(RangeError);
  }
  expect(service.requests).toHaveLength(3);
});

const gone = failed(404, "order_not_found");
const shipped = failed(409, "order_already_shipped");
const about401 = { code: "unauthorized", message: "about unauthorized", requestId: "request-1" };

test.each([
  ["401", [failed(401, "unauthorized")], { reason: { ...about401, status: 401 } }],
  ["409", [shipped], { reason: { code: "order_already_shipped", retryAfterSeconds: null } }],
  ["lost connection", [unreachable, gone], { value: "cancelled_or_gone" }],
  ["500", [failed(500, "internal_error"), gone], { value: "cancelled_or_gone" }],
  ["lost connection and a 429", [unreachable, refused(0), gone], { value: "cancelled_or_gone" }],
  ["429", [refused(0), gone], { reason: { code: "order_not_found" } }],
  ["lost connection", [unreachable, shipped], { reason: { code: "order_already_shipped" } }],
  ["403 of a later version", [failed(403, "suspended")], { reason: { code: "suspended" } }],
  ["service that is away", Array(6).fill(unreachable), { reason: { code: "network_error" } }],
  ["wait for nothing", Array(4).fill(ignoresSignal), { reason: { code: "timeout" } }],
  ["proxy's 502", [() => new Response("", { status: 502 }), cancelled], { value: "cancelled" }],
])("cancelOrder says after a %s what may have happened", async (_, answers, outcome) => {
  expect(await attempt(answers)).toMatchObject({ outcome, sent: answers.length });
});
test.each([false, true])(
  "a retry comes after Retry-After and a jitter, even if timers fire early (pacing %s)",
  async (pacing) => {
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    const setTimer = globalThis.setTimeout;
    vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms: number) =>
      setTimer(work, ms > 500 ? ms - 5 : ms)) as typeof setTimeout);
    const lost = refusedInPart(1, new TypeError("terminated"));
    const answers = [refused(31), lost, refusedInPart(2), cancelled];
    const errors: Retry["error"][] = [];
    const options = { timeoutMs: 100, onRetry: ({ error }: Retry) => errors.push(error), pacing };
    const { outcome, service } = await attempt(answers, cancel, options);
    expect(outcome).toMatchObject({ value: "cancelled" });
    const codes = ["rate_limit_exceeded", "network_error", "timeout"];
    expect(errors).toMatchObject(codes.map((code) => ({ code, status: 429 })));
    // A paced call waits from the arrival of the headers, others from the end of the timeout.
    for (const [index, least] of [31_000, 1_000, pacing ? 2_000 : 2_100].entries()) {
      const lateMs = service.gapsMs[index]! - least - 125 * 2 ** index;
      expect(lateMs).toBeGreaterThanOrEqual(-1);
      expect(lateMs).toBeLessThanOrEqual(6);
    }
  },
);

test.each([
  ["1.5", "", null],
  ["Fri, 15 Jan 2027 08:01:00 GMT", "", 60],
  ["Fri, 15 Jan 2027 08:01:00 GMT", "Fri, 15 Jan 2027 07:00:30 GMT", 3_630],
  // Two headers, of which a proxy has added one.
  ["5, 31", "", 31],
  ["31, 5", "", 31],
] as const)(
  "a retry takes from Retry-After %j with Date %j %o seconds",
  async (text, date, seconds) => {
    vi.setSystemTime(Date.parse("2027-01-15T08:00:00.500Z"));
    const headers = { "Retry-After": text, ...(date && { Date: date }) };
    const unavailable = failed(503, "service_unavailable", headers);
    const { outcome } = await attempt([unavailable], cancel, { retries: 0 });
    expect(outcome).toMatchObject({ reason: { retryAfterSeconds: seconds } });
  },
);

const ADVICE = " If the service runs, its CORS_ORIGINS must list https://shop.example.";
test.each([
  [undefined, ""],
  [{ origin: "https://orders.example" }, ""],
  [{ origin: "https://shop.example" }, ADVICE],
])("a retry is announced, and backs off with full jitter, from a page at %o", async (...row) => {
  const [location, advice] = row;
  vi.stubGlobal("location", location);
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const delays = [125, 250, 500, 1_000, 2_000, 4_000, 5_000, 5_000];
  const seen: Retry[] = [];
  const options = { retries: delays.length, onRetry: (retry: Retry) => seen.push(retry) };
  const { outcome, service } = await attempt([unreachable], listAll, options);
  const message = `No response from orders.example: refused.${advice}`;
  const error = { code: "network_error", status: null, message, cause: expect.any(TypeError) };
  expect(outcome).toMatchObject({ reason: error });
  const retries = delays.map((delayMs, index) => ({ attempt: index + 1, delayMs, error }));
  expect(seen).toMatchObject(retries);
  expect(service.gapsMs.map(Math.floor)).toEqual(delays);
});

test.each([
  [30 * 86_400, 1],
  [61, 2],
  [60, 3],
])("a wait of %d s does not exceed maxElapsedMs, except in a batch", async (seconds, sent) => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  const reason = { code: "rate_limit_exceeded", retryAfterSeconds: seconds };
  const refusal = refused(seconds);
  expect(await attempt([refusal], listAll)).toMatchObject({ outcome: { reason }, sent });
  // However often another client of the key was faster, a batch waits again.
  const answers = [...Array<Answer>(20).fill(refusal), cancelled];
  const waited = { outcome: { value: { length: 1 } }, tookMs: 20 * seconds * 1_000 };
  expect(await attempt(answers, batch)).toMatchObject(waited);
});

test("a look at the quota is repeated, and refuses what is no quota", async () => {
  const unavailable = failed(503, "service_unavailable", { "Retry-After": "1" });
  const outcome = { reason: { code: "unexpected_answer", status: 200 } };
  const noQuota = () => Response.json({ windows: 7 });
  const repeated = await attempt([unavailable, list(new TypeError("terminated")), noQuota], look);
  expect(repeated).toMatchObject({ outcome, sent: 3 });
  expect(repeated.service.gapsMs[0]).toBeGreaterThanOrEqual(1_000);
  expect(await attempt([() => new Response("<html>")], look)).toMatchObject({ outcome });
  const paced = await attempt([unavailable], look, { pacing: true, maxElapsedMs: 999 });
  expect(paced).toMatchObject({ outcome: { status: "rejected" }, sent: 1 });
});

test.each([
  [900, { status: "fulfilled", value: { length: 9 } }],
  [1_100, { reason: { code: "broken_list", cause: { code: "timeout" } } }],
])("a wait ends %d ms after the last part of a list, not of a slow one", async (gapMs, outcome) => {
  const texts = ['[{"id":1}', ...[2, 3, 4, 5, 6, 7, 8, 9].map((id) => `,{"id":${id}}`), "]"];
  const gap = () => new Promise<void>((resolve) => setTimeout(resolve, gapMs));
  const service = new ScriptedService(list(...texts.flatMap((text) => [gap, text])));
  const client = clientOf(service, { timeoutMs: 1_000, retries: 0 });
  expect(await settled(listAll(client))).toMatchObject(outcome);
});

test.each([
  ["a retry", refused(60)],
  ["a response, from a fetch that ignores the signal", ignoresSignal],
  ["a part of a list", list("[", () => new Promise(() => {}))],
])("a wait for %s ends at once when the call is aborted", async (_, answer) => {
  const abort = new AbortController();
  setTimeout(() => abort.abort("enough"), 5_000);
  const first: Run = (client) =>
    client.listOrders({ signal: abort.signal })[Symbol.asyncIterator]().next();
  const seen = await attempt([answer], first);
  expect(seen).toMatchObject({ outcome: { reason: "enough" }, tookMs: 5_000, sent: 1 });
});

const quotaAnswer = () => Response.json({ windows: [], ban: null, expiresAt: null });
describe.each([
  ["listOrders", list("[]"), listAll, [{ ifNoneMatch: "b635bf2f" }, { oneMoment: 1 }]],
  ["cancelOrder", cancelled, cancel, [{ retries: -1 }, { retries: 1_001 }, { retries: 0.5 }]],
  ["cancelOrders", cancelled, batch, [{ concurrency: 0 }, { concurrency: 1_001 }]],
  ["quota", quotaAnswer, look, [{ pacing: true }]],
] as const)("%s", (operation, answer, run, wrong) => {
  test("applies retries and timeoutMs to a call", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0);
    const limited: Run = (client) => run(client, { timeoutMs: 700, retries: 1 });
    const timeout = { code: "timeout", message: "Nothing arrived within 700 ms." };
    const reason = operation === "cancelOrders" ? { cause: timeout } : timeout;
    const seen = await attempt([ignoresSignal], limited);
    expect(seen).toMatchObject({ outcome: { reason }, sent: 2, tookMs: 2 * 700 });
  });

  test("sends its headers with every request, and leaves no listener on the caller's signal", async () => {
    const { signal } = new AbortController();
    const requestId = "copy_42".padEnd(255, "=");
    const most = { retries: 1_000, timeoutMs: 2 ** 31 - 1 };
    const options = { requestId, headers: { traceparent: "00-1-2-01" }, signal, ...most };
    const withOptions: Run = (client) => run(client, options);
    const { outcome, service } = await attempt([unreachable, refused(1), answer], withOptions);
    expect(outcome.status).toBe("fulfilled");
    const sent = {
      accept: "application/json",
      authorization: "Bearer sord_test",
      traceparent: "00-1-2-01",
      "x-request-id": requestId,
    };
    const received = service.requests.map(({ headers }) => Object.fromEntries(headers));
    expect(received).toEqual([sent, sent, sent]);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test.each([
    ...wrong,
    { timeoutMs: 0 },
    { timeout: 5 },
    { requestId: "a b" },
    { requestId: "a".repeat(256) },
    ...["Accept", "Authorization", "If-None-Match", "X-Request-Id"].map((name) => {
      return { headers: { [name]: "own" } };
    }),
    { signal: AbortSignal.abort(new Error("this signal was aborted")) },
  ])("refuses %o before any request", async (options) => {
    const { outcome, sent } = await attempt([answer], (client) => run(client, options as object));
    const message = expect.stringContaining(Object.keys(options)[0]!);
    expect({ outcome, sent }).toMatchObject({ outcome: { reason: { message } }, sent: 0 });
  });
});

test.each([
  ["r", "t"],
  ["a", "w"],
])("limits are those in the last response that has them, as %s and %s", async (left, ends) => {
  const RateLimit = `"minute";${left}=0;${ends}=31, "day";${left}=940;${ends}=80000`;
  const malformed = {
    "RateLimit-Policy": '"minute";q=0;w=60, "day";q=1;w=1, "week";q=1;w=1',
    RateLimit: `"minute";${left}=0;${ends}=1, "day";${left}=-1;${ends}=1, "week";${left}=0;${ends}=0.5`,
  };
  const service = new ScriptedService(
    roomy,
    failed(429, "rate_limit_exceeded", { ...quota(940), RateLimit, "Retry-After": "31" }),
    () => new Response("Bad Gateway", { status: 502, headers: malformed }),
  );
  const client = clientOf(service, { retries: 0 });
  expect(client.limits).toBeNull();
  await client.cancelOrder(1n);
  const minute = { name: "minute", limit: 60, lengthSeconds: 60, remaining: 59, resetSeconds: 60 };
  const windows = [minute, { name: "day", limit: 1_000, lengthSeconds: 86_400, remaining: 999 }];
  expect(client.limits).toMatchObject({ windows, retryAfterSeconds: null });
  vi.advanceTimersByTime(1_000);
  const answeredAt = new Date();
  for (const status of [429, 502]) {
    await expect(client.cancelOrder(2n)).rejects.toMatchObject({ status });
    const rest = [{ remaining: 0, resetSeconds: 31 }, { remaining: 940 }];
    expect(client.limits).toMatchObject({ windows: rest, retryAfterSeconds: 31, answeredAt });
    vi.advanceTimersByTime(1_000);
  }
});

test("onResponse is called for each response, after limits is updated; its error ends the call", async () => {
  const slow: Answer = () => new Promise((resolve) => setTimeout(() => resolve(roomy()), 40));
  const seen: unknown[] = [];
  const onResponse = ({ method, url, status, headers, elapsedMs }: ResponseInfo) => {
    const id = headers.get("X-Request-Id");
    seen.push([method, url, status, id, elapsedMs, client.limits?.windows.length]);
    if (status === 204) throw new Error("mine");
  };
  const unavailable = failed(503, "service_unavailable", quota(999));
  const client = clientOf(new ScriptedService(unreachable, unavailable, slow), { onResponse });
  expect(await settled(client.cancelOrder(1n))).toMatchObject({ reason: { message: "mine" } });
  const sent = ["DELETE", `${URL_OF}/1`];
  expect(seen).toEqual([
    [...sent, 503, "request-1", 0, 2],
    [...sent, 204, null, 40, 2],
  ]);
});

test.each([
  { apiKey: "" },
  { apiKey: "sord_secret sord_secret" },
  { baseUrl: "orders.example" },
  { baseUrl: "http://a.example" },
  { baseUrl: "http://localhost.example" },
  { baseUrl: "http://secretlocalhost" },
  { baseUrl: "http://127.0.0.1.example" },
  { baseUrl: "https://a.example#secret" },
  { baseUrl: "https://secret@a.example" },
  { baseUrl: "https://a.example?key=secret" },
  { timeoutMs: 2 ** 31 },
  { maxElapsedMs: NaN },
  { retry: 3 },
])("wrong options %o are refused without naming the key", (options) => {
  const create = () => createClient({ ...OPTIONS, ...(options as object) });
  expect(create).toThrow(Object.keys(options)[0]);
  expect(create).not.toThrow(/secret/);
});
