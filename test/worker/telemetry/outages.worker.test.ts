import { beforeEach, describe, expect, test } from "vitest";
import { fail, PASS } from "../faults/fault-script.ts";
import { faultyDatabases, faultyLimiters } from "../faults/faulty-bindings.ts";
import { events, type LogLine, readLog } from "../faults/log-lines.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";

let log: () => LogLine[];
let id: string;
let key: string;

beforeEach(async () => {
  log = readLog();
  ({ id, key } = await createApiKey());
  stopClock();
});

describe.each([
  ["fallback_limiter_on", "fallback_limiter_off"],
  ["orders_database_unavailable", "orders_database_available"],
])("%s", (began, ended) => {
  const isLimiter = began.startsWith("fallback");

  function start() {
    const { limiters, script: limiterScript } = faultyLimiters();
    const { bindings, script: databaseScript } = faultyDatabases("ORDERS");
    const service = startService({}, isLimiter ? { RATE_LIMITER: limiters } : bindings);
    return { service, script: isLimiter ? limiterScript : databaseScript };
  }

  test("is logged once, however many requests fail; its end is logged once too", async () => {
    const { service, script } = start();
    await service(LIST, { key });
    script.always(fail("Network connection lost."));
    const first = await service(LIST, { key });
    for (let n = 0; n < 3; n++) await service(LIST, { key });
    advanceClock(5_000);
    await service(LIST, { key });
    expect(log()).toHaveLength(1);
    expect(log()[0]).toMatchObject({
      event: began,
      requestId: first.headers.get("X-Request-Id"),
      error: expect.stringContaining("Network connection lost."),
      ...(isLimiter ? { keyId: id } : {}),
    });
    script.always(PASS);
    advanceClock(10_000);
    await service(LIST, { key });
    await service(LIST, { key });
    expect(log().slice(1)).toStrictEqual([{ event: ended, failures: 5, seconds: 5 }]);
  });

  test("is a single outage if failures recur in less than ten seconds", async () => {
    const { service, script } = start();
    await service(LIST, { key });
    for (let n = 0; n < 3; n++) {
      script.next(fail("Network connection lost."));
      await service(LIST, { key });
      advanceClock(9_000);
      await service(LIST, { key });
    }
    expect(events(log())).toStrictEqual([began]);
    advanceClock(1_000);
    await service(LIST, { key });
    expect(events(log())).toStrictEqual([began, ended]);
    script.next(fail("Network connection lost."));
    await service(LIST, { key });
    expect(events(log())).toStrictEqual([began, ended, began]);
  });
});

test("a refusal from memory does not end an outage of the limiter", async () => {
  const { limiters, script } = faultyLimiters();
  const service = startService({}, { RATE_LIMITER: limiters });
  const other = await createApiKey({ plan: "enterprise", perMinute: 1, perDay: 9 });
  await service(LIST, { key: other.key });
  await service(LIST, { key: other.key });
  script.always(fail("Internal error."));
  await service(LIST, { key });
  advanceClock(20_000);
  expect((await service(LIST, { key: other.key })).status).toBe(429);
  expect(events(log())).not.toContain("fallback_limiter_off");
});
