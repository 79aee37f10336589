import { beforeEach, describe, expect, test } from "vitest";
import { COLUMNS } from "../../../src/operator/metrics/questions.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { startService } from "../../support/service.ts";
import { listenTo, requestLines } from "../../support/written-lines.ts";
import { columnsOf, recordingDataSet } from "./data-set-double.ts";

const LIST = "/v1/store/orders";

let events: () => string[];
let id: string;
let key: string;

beforeEach(async () => {
  events = listenTo("warn");
  ({ id, key } = await createApiKey());
});

test("each request writes one data point whose columns contain the fields of its log line", async () => {
  const { dataSet, points } = recordingDataSet();
  const service = startService({}, { ANALYTICS: dataSet });
  await service(LIST, { key });
  await service(LIST);
  await service("/elsewhere");
  expect(points).toHaveLength(3);
  for (const [position, line] of requestLines().entries()) {
    const { event, requestId, keyId, ...fields } = line;
    expect(event).toBe("request");
    expect(requestId).not.toBe("");
    const row = columnsOf(points[position]!);
    expect(row["index1"]).toBe(keyId ?? "anonymous");
    for (const [name, value] of Object.entries(fields)) {
      const column = COLUMNS[name as keyof typeof fields];
      expect(row[column], name).toBe(value ?? (column.startsWith("blob") ? "" : -1));
    }
  }
  expect(points[0]?.indexes).toStrictEqual([id]);
});

test("every field is within the limits of Analytics Engine", async () => {
  const { dataSet, points } = recordingDataSet();
  const service = startService({}, { ANALYTICS: dataSet });
  const headers = { "X-Request-Id": "x".repeat(255) };
  await service(`${LIST}/${"9".repeat(8_000)}`, { method: "DELETE", key, headers });
  const { indexes = [], blobs = [], doubles = [] } = points[0]!;
  expect(indexes).toStrictEqual([id]);
  expect(id.length).toBeLessThanOrEqual(96);
  expect(blobs.length).toBeLessThanOrEqual(20);
  expect(doubles.length).toBeLessThanOrEqual(20);
  expect(JSON.stringify(blobs).length).toBeLessThan(1_000);
});

test("a data point is written whether or not the request is logged", async () => {
  const { dataSet, points } = recordingDataSet();
  await startService({ REQUEST_LOG: "none" }, { ANALYTICS: dataSet })(LIST, { key });
  expect(points).toHaveLength(1);
  expect(requestLines()).toStrictEqual([]);
});

describe("a data set that cannot be written to", () => {
  test("does not fail requests, and is logged once", async () => {
    stopClock();
    const { dataSet, points, breakWith } = recordingDataSet();
    const service = startService({}, { ANALYTICS: dataSet });
    breakWith(new TypeError("writeDataPoint(): out of order"));
    const answers = [
      await service(LIST, { key }),
      await service(LIST),
      await service("/v1/x", { key }),
    ];
    expect(answers.map(({ status }) => status)).toStrictEqual([200, 401, 404]);
    const [began, ...others] = events().map((line) => JSON.parse(line));
    expect(others).toStrictEqual([]);
    expect(began).toMatchObject({
      event: "telemetry_failing",
      requestId: answers[0]?.headers.get("X-Request-Id"),
      error: "writeDataPoint(): out of order",
    });

    breakWith(null);
    advanceClock(10_000);
    await service(LIST, { key });
    expect(points).toHaveLength(1);
    expect(JSON.parse(events()[1]!)).toStrictEqual({
      event: "telemetry_recovered",
      failures: 3,
      seconds: 0,
    });
  });
});
