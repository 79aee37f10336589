import { beforeEach, expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { BLOBS, DOUBLES } from "../../../src/worker/telemetry/request-record.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { LIST, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";
import { faultyDatabases, LOST } from "../../support/faults.ts";

/** The Analytics Engine column of each field of a request record. */
const COLUMNS: Readonly<Record<string, string>> = Object.fromEntries([
  ...BLOBS.map((name, position) => [name, `blob${position + 1}`]),
  ...DOUBLES.map((name, position) => [name, `double${position + 1}`]),
]);

let id: string;
let key: string;

beforeEach(async () => {
  stopClock();
  ({ id, key } = await createApiKey());
});

/** Starts a service with a double of an Analytics Engine data set, which a test can make fail. */
function startWithDataSet(vars: Record<string, string> = {}) {
  const points: AnalyticsEngineDataPoint[] = [];
  const dataSet = { fault: null as Error | null };
  const writeDataPoint = (point: AnalyticsEngineDataPoint = {}) => {
    if (dataSet.fault !== null) throw dataSet.fault;
    points.push(point);
  };
  return { service: startService(vars, { ANALYTICS: { writeDataPoint } }), points, dataSet };
}

/** Converts a data point to a row of the data set: `index1`, `blob1`, `double1` and so on. */
function rowOf({ indexes = [], blobs = [], doubles = [] }: AnalyticsEngineDataPoint) {
  const row: Record<string, unknown> = {};
  for (const [kind, values] of Object.entries({ index: indexes, blob: blobs, double: doubles })) {
    for (const [position, value] of values.entries()) row[`${kind}${position + 1}`] = value;
  }
  return row;
}

test("each request writes one data point whose columns contain the fields of its log line", async () => {
  const { service, points } = startWithDataSet();
  await service(LIST, { key });
  await service(LIST);
  await service("/elsewhere");
  const headers = { "X-Request-Id": "x".repeat(255) };
  await service(`${LIST}/${"9".repeat(8_000)}`, { method: "DELETE", key, headers });
  expect(points).toHaveLength(4);
  for (const [position, line] of requestLines().entries()) {
    const { event, requestId, keyId, ...fields } = line;
    expect(event).toBe("request");
    expect(requestId).not.toBe("");
    const row = rowOf(points[position]!);
    expect(row["index1"]).toBe(keyId ?? "anonymous");
    for (const [name, value] of Object.entries(fields)) {
      const column = COLUMNS[name] ?? "";
      expect(row[column], name).toBe(value ?? (column.startsWith("blob") ? "" : -1));
    }
    // Analytics Engine accepts at most 96 bytes for the index.
    expect(String(row["index1"]).length).toBeLessThanOrEqual(96);
    expect(JSON.stringify(points[position]?.blobs).length).toBeLessThan(1_000);
  }
  expect(points[0]?.indexes).toStrictEqual([id]);
});

test("a data set that cannot be written to does not fail requests, and is logged once", async () => {
  const { service, points, dataSet } = startWithDataSet({ REQUEST_LOG: "none" });
  dataSet.fault = new TypeError("writeDataPoint(): out of order");
  const first = await service(LIST, { key });
  expect([first.status, (await service(LIST)).status]).toStrictEqual([200, 401]);
  dataSet.fault = null;
  advanceClock(10_000);
  await service(LIST, { key });
  // With `REQUEST_LOG=none`, a request is not logged, but its data point is written.
  expect([points.length, requestLines().length]).toStrictEqual([1, 0]);
  expect(eventLines()).toMatchObject([
    {
      event: "telemetry_failing",
      requestId: first.headers.get("X-Request-Id"),
      error: "writeDataPoint(): out of order",
    },
    { event: "telemetry_recovered", failures: 2, seconds: 0 },
  ]);
});

const represented = (status: number) =>
  requestLines()
    .filter((line) => line.status === status)
    .map(({ represents }) => represents);

test("a flood without a valid key is sampled, and each record states how many requests it represents", async () => {
  const { service, points } = startWithDataSet();
  for (let n = 0; n < 60 + 210; n += 1) await service(LIST, { address: "192.0.2.1" });
  for (let n = 0; n < 110; n += 1) await service("/elsewhere");
  const few = Array<number>(10).fill(1);
  expect(represented(401)).toStrictEqual(few);
  expect(represented(429)).toStrictEqual([...few, 100, 100]);
  expect(represented(404)).toStrictEqual([...few, 100]);
  advanceClock(60_000);
  await service(LIST, { address: "192.0.2.1" });
  expect(represented(401)).toStrictEqual([...few, 51]);
  const rows = points.map((point) => rowOf(point)[COLUMNS["represents"] ?? ""]);
  expect(rows).toStrictEqual(requestLines().map(({ represents }) => represents));
});

test("every request with a valid key and every 5xx is recorded, even during a flood", async () => {
  const { bindings, script } = faultyDatabases("KEYS");
  const service = startService({}, bindings);
  for (let n = 0; n < 12; n += 1) await service("/v1/nothing");
  for (let n = 0; n < 75; n += 1) await service("/v1/nothing", { key });
  script.always(LOST);
  for (let n = 0; n < 12; n += 1) await service(LIST, { key: generateSecret() });
  expect(represented(404)).toStrictEqual(Array(60).fill(1));
  expect(represented(429)).toStrictEqual(Array(15).fill(1));
  expect(represented(503)).toStrictEqual(Array(12).fill(1));
});
