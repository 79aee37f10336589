import { expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { fail } from "../faults/fault-script.ts";
import { faultyDatabases } from "../faults/faulty-bindings.ts";
import { readLog } from "../faults/log-lines.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { startService } from "../../support/service.ts";
import { requestLines } from "../../support/written-lines.ts";
import { COLUMNS } from "../../../src/operator/metrics/questions.ts";
import { columnsOf, recordingDataSet } from "./data-set-double.ts";

const LIST = "/v1/store/orders";

/** Returns how many requests each log line with this HTTP status represents, and their total. */
function represented(status: number): { lines: number[]; total: number } {
  const lines = requestLines().filter((line) => line.status === status);
  const counts = lines.map(({ represents }) => represents);
  return { lines: counts, total: counts.reduce((sum, count) => sum + count, 0) };
}

test("a flood without a valid key is sampled, and each record states how many requests it represents", async () => {
  stopClock();
  const { dataSet, points } = recordingDataSet();
  const service = startService({}, { ANALYTICS: dataSet });
  for (let n = 0; n < 60 + 210; n += 1) await service(LIST, { address: "192.0.2.1" });
  for (let n = 0; n < 110; n += 1) await service("/elsewhere");
  expect(represented(401)).toStrictEqual({ lines: Array(10).fill(1), total: 10 });
  expect(represented(429)).toStrictEqual({ lines: [...Array(10).fill(1), 100, 100], total: 210 });
  expect(represented(404)).toStrictEqual({ lines: [...Array(10).fill(1), 100], total: 110 });
  advanceClock(60_000);
  await service(LIST, { address: "192.0.2.1" });
  expect(represented(401)).toStrictEqual({ lines: [...Array(10).fill(1), 51], total: 61 });
  const rows = points.map((point) => columnsOf(point)[COLUMNS.represents]);
  expect(rows).toStrictEqual(requestLines().map(({ represents }) => represents));
});

test("every request with a valid key is recorded, even during a flood", async () => {
  stopClock();
  const { key } = await createApiKey();
  const service = startService();
  for (let n = 0; n < 20; n += 1) await service(LIST);
  for (let n = 0; n < 70; n += 1) await service("/v1/nothing", { key });
  expect(represented(404)).toStrictEqual({ lines: Array(60).fill(1), total: 60 });
  expect(represented(429)).toStrictEqual({ lines: Array(10).fill(1), total: 10 });
});

test("every 5xx response is recorded, even if the key could not be looked up", async () => {
  readLog();
  stopClock();
  const { bindings, script } = faultyDatabases();
  script.always(fail("D1_ERROR: Network connection lost."));
  const service = startService({}, bindings);
  for (let n = 0; n < 20; n += 1) await service(LIST, { key: generateSecret() });
  expect(represented(503)).toStrictEqual({ lines: Array(20).fill(1), total: 20 });
});
