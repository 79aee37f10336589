import { beforeEach, describe, expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { expectError } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { startService } from "../../support/service.ts";
import { requestLines } from "../../support/written-lines.ts";
import { fail, HANG, PASS } from "./fault-script.ts";
import { faultyDatabases } from "./faulty-bindings.ts";
import { events, type LogLine, readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";
const LOST = fail("D1_ERROR: Network connection lost.");

let log: () => LogLine[];
let key: string;

beforeEach(async () => {
  log = readLog();
  ({ key } = await createApiKey());
  await placeOrder(7n);
});

function startWithFaulty(name: "ORDERS" | "KEYS") {
  const { bindings, script } = faultyDatabases(name);
  return { send: startService({ DATABASE_TIMEOUT_MS: "250" }, bindings), script };
}

/** Returns, for each request, the parts of the service that its log line names as failed. */
const degraded = () => requestLines().map((line) => line.degraded);

describe.each([
  ["fails", LOST],
  ["hangs", HANG],
])("while the orders database %s", (_, outcome) => {
  test("keys are still authenticated", async () => {
    const { send, script } = startWithFaulty("ORDERS");
    script.always(outcome);
    await expectError(await send(LIST, { key }), 503, "service_unavailable");
    const cancelled = await send(`${LIST}/7`, { key, method: "DELETE" });
    await expectError(cancelled, 503, "service_unavailable");
    const { key: unseen } = await createApiKey();
    await expectError(await send("/v1/nothing", { key: unseen }), 404, "not_found");
    await expectError(await send(LIST, { key: generateSecret() }), 401, "unauthorized");
    expect(degraded()).toStrictEqual(["orders", "orders", null, null]);
    expect(events(log())).toStrictEqual(["orders_database_unavailable"]);
  });
});

describe.each([
  ["fails", LOST],
  ["hangs", HANG],
])("while the keys database %s", (_, outcome) => {
  test("keys that the isolate remembers can list and cancel orders, and other keys receive 503", async () => {
    const { send, script } = startWithFaulty("KEYS");
    await send("/v1/nothing", { key });
    script.always(outcome);
    const { key: unseen } = await createApiKey();
    await expectError(await send(LIST, { key: unseen }), 503, "service_unavailable");
    expect(await (await send(LIST, { key })).text()).toBe('[{"id":7}]');
    expect((await send(`${LIST}/7`, { key, method: "DELETE" })).status).toBe(204);
    expect(degraded()).toStrictEqual([null, "keys", null, null]);
    expect(events(log())).toStrictEqual(["keys_database_unavailable"]);
  });
});

test("an outage of the keys database ends with a successful look-up of a key, not with a successful list", async () => {
  stopClock();
  const { send, script } = startWithFaulty("KEYS");
  await send("/v1/nothing", { key });
  script.always(LOST);
  const unknown = generateSecret();
  const first = await send(LIST, { key: unknown });
  advanceClock(5_000);
  await send(LIST, { key: unknown });
  expect(log()).toHaveLength(1);
  expect(log()[0]).toMatchObject({
    event: "keys_database_unavailable",
    requestId: first.headers.get("X-Request-Id"),
  });
  advanceClock(15_000);
  expect((await send(LIST, { key })).status).toBe(200);
  expect(log()).toHaveLength(1);
  script.always(PASS);
  await expectError(await send(LIST, { key: unknown }), 401, "unauthorized");
  expect(log().slice(1)).toStrictEqual([
    { event: "keys_database_available", failures: 2, seconds: 5 },
  ]);
});
