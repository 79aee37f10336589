import { beforeEach, expect, test, vi } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { type Send, startService } from "../../support/service.ts";
import { HANG, PASS } from "./fault-script.ts";
import { type FaultyDatabases, faultyDatabases } from "./faulty-bindings.ts";

const TIMEOUT_MS = 500;

let line: FaultyDatabases;
let service: Send;
let key: string;

beforeEach(async () => {
  vi.spyOn(console, "warn").mockReturnValue();
  line = faultyDatabases("ORDERS");
  service = startService({ DATABASE_TIMEOUT_MS: String(TIMEOUT_MS) }, line.bindings);
  ({ key } = await createEnterpriseKey(100, 1_000));
  await placeOrder(1n);
  stopClock();
  await service("/v1/none", { key });
});

const cancelOrder = () => service("/v1/store/orders/1", { method: "DELETE", key });

async function expectAtOnce(response: Promise<Response>): Promise<void> {
  const beganMs = performance.now();
  await expectError(await response, 503, "service_unavailable");
  expect(performance.now() - beganMs).toBeLessThan(TIMEOUT_MS);
}

test("after a query has timed out, queries fail immediately for a second; then one query is sent as a probe", async () => {
  line.script.always(HANG);
  await expectError(await cancelOrder(), 503, "service_unavailable");
  const { calls } = line.script;
  for (let n = 0; n < 3; n++) await expectAtOnce(cancelOrder());
  expect(line.script.calls).toBe(calls);
  advanceClock(1_000);
  const probe = cancelOrder();
  await vi.waitUntil(() => line.script.calls === calls + 1, { interval: 1 });
  await expectAtOnce(cancelOrder());
  await expectError(await probe, 503, "service_unavailable");
  expect(line.script.calls).toBe(calls + 1);
});

test("requests that need no database are served during the pause", async () => {
  line.script.next(HANG).always(PASS);
  await expectError(await cancelOrder(), 503, "service_unavailable");
  const response = await service("/v1/none", { key });
  quotaOf(response);
  await expectError(response, 404, "not_found");
});
