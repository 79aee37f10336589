import { beforeEach, expect, test, vi } from "vitest";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import * as faults from "../../support/faults.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { REQUEST } from "../../support/request-record.ts";
import { LIST, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

let id: string;
let key: string;
beforeEach(async () => {
  stopClock();
  ({ id, key } = await createApiKey());
});

function startWithDataSet(vars: Record<string, string> = {}) {
  const writeDataPoint = vi.fn<(point?: AnalyticsEngineDataPoint) => void>();
  return { service: startService(vars, { ANALYTICS: { writeDataPoint } }), writeDataPoint };
}

test("each request writes one log line, and one data point with the same fields, which say nothing else of what was sent", async () => {
  const { service, writeDataPoint } = startWithDataSet();
  await placeOrder(7n);
  const scarce = await createEnterpriseKey(1, 5);
  const ofNobody = { keyId: null, plan: null };
  const order = { route: `${LIST}/{orderId}` };
  const refused = { keyId: scarce.id, plan: "enterprise", limit: 1, remaining: 0 };
  const unknown = { code: "not_found" };
  const outside = { window: null, limit: null, remaining: null, region: null, country: null };
  const requestId = "x".repeat(255);
  const common = { ...REQUEST, requestId, keyId: id, durationMs: 0 };
  let left = 60;
  for (const [status, method, path, sentKey, fields] of [
    [200, "GET", `${LIST}?page=1`, key, {}],
    [204, "DELETE", `${LIST}/7`, key, order],
    [404, "DELETE", `${LIST}/x%2Fy`, key, { ...order, code: "order_not_found" }],
    [404, "PROPFIND", "/v1/at%20all", key, { ...unknown, method: "other", route: "/v1/*" }],
    [405, "OPTIONS", LIST, key, { code: "method_not_allowed" }],
    [200, "GET", LIST, scarce.key, refused],
    [429, "GET", LIST, scarce.key, { ...refused, code: "rate_limit_exceeded" }],
    [401, "GET", LIST, generateSecret(), { ...ofNobody, code: "unauthorized", remaining: 59 }],
    [404, "GET", "/any/where", "", { ...ofNobody, ...unknown, ...outside, route: "/*" }],
  ] as const) {
    const headers = { "X-Request-Id": requestId };
    const sent = sentKey === "" ? {} : { key: sentKey, cf: { colo: "FRA", country: "DE" } };
    await (await service(path, { ...sent, method, headers, address: "192.0.2.1" })).text();
    if (sentKey === key) left -= 1;
    const line = { ...common, method, status, remaining: left, ...fields };
    expect(requestLines().at(-1), `${status} ${method} ${path}`).toStrictEqual(line);
  }
  const known = [LIST, "GET", "", "free", "minute", "FRA", "DE", "", ""];
  const outsider = ["/*", "GET", "not_found", "", "", "", "", "", ""];
  const points = writeDataPoint.mock.calls.map(([point]) => point);
  expect([points[0], points.at(-1)]).toStrictEqual([
    { indexes: [id], blobs: known, doubles: [200, 0, 60, 59, 1] },
    { indexes: ["anonymous"], blobs: outsider, doubles: [404, 0, -1, -1, 1] },
  ]);
  expect(points).toHaveLength(requestLines().length);
});

test("a data set that cannot be written to does not fail requests, and its outage is logged once", async () => {
  const { service, writeDataPoint } = startWithDataSet({ REQUEST_LOG: "none" });
  const error = "writeDataPoint(): out of order";
  writeDataPoint.mockThrow(new TypeError(error));
  for (const requestId of ["first", "second", "third"]) {
    const headers = { "X-Request-Id": requestId };
    expect((await service(LIST, { key, headers })).status).toBe(200);
    advanceClock(5_000);
  }
  writeDataPoint.mockReset();
  advanceClock(5_000);
  await service(LIST, { key });
  // With `REQUEST_LOG=none`, a request is not logged, but its data point is written.
  expect(writeDataPoint).toHaveBeenCalledOnce();
  expect(requestLines()).toStrictEqual([]);
  expect(eventLines()).toMatchObject([
    { event: "telemetry_failing", requestId: "first", error },
    { event: "telemetry_recovered", failures: 3, seconds: 10 },
  ]);
});

test("a flood without a valid key is sampled, and each record states how many requests it represents; every request with a valid key and every 5xx is recorded", async () => {
  const { bindings, script } = faults.faultyDatabases("KEYS");
  const service = startService({}, bindings);
  const address = "192.0.2.1";
  const represented = (status: number) =>
    requestLines().flatMap((line) => (line.status === status ? line.represents : []));
  for (let n = 0; n < 60 + 210; n += 1) await service(LIST, { address });
  const few = Array<number>(10).fill(1);
  expect(represented(401)).toStrictEqual(few);
  expect(represented(429)).toStrictEqual([...few, 100, 100]);
  for (let n = 0; n < 75; n += 1) await service("/v1/nothing", { key });
  expect(represented(404)).toStrictEqual(Array(60).fill(1));
  expect(represented(429)).toStrictEqual([...few, 100, 100, ...Array<number>(15).fill(1)]);
  advanceClock(60_000);
  await service(LIST, { address });
  expect(represented(401)).toStrictEqual([...few, 51]);
  for (const [status, outcome] of [
    [503, faults.LOST],
    [500, faults.fail("no such table: api_keys")],
  ] as const) {
    script.always(outcome);
    for (let n = 0; n < 12; n += 1) await service(LIST, { key: generateSecret() });
    expect(represented(status)).toStrictEqual(Array(12).fill(1));
  }
});

test("REQUEST_LOG errors: a line for each 5xx and each request for which a part failed, with the parts and the duration, which is never negative", async () => {
  const lost = (ms: number) =>
    faults.brokenDatabase("KEYS", (call) => (advanceClock(ms), faults.LOST(call)));
  const [limiters, orders] = [faults.brokenLimiters(), faults.brokenDatabase("ORDERS")];
  const broken = [{}, limiters, orders, { ...limiters, ...orders }, lost(1_500), lost(-1_500)];
  for (const bindings of broken) {
    await startService({ REQUEST_LOG: "errors" }, bindings)(LIST, { key });
  }
  const ofAddress = { status: 503, window: "minute", limit: 60, degraded: "keys" };
  expect(requestLines()).toMatchObject([
    { status: 200, degraded: "limiter" },
    { status: 503, degraded: "orders" },
    { status: 503, degraded: "limiter,orders" },
    { durationMs: 1_500, ...ofAddress },
    { durationMs: 0, ...ofAddress },
  ]);
});
