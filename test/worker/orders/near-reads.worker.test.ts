import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, HOUR_MS, MINUTE_MS, stopClock } from "../../support/clock.ts";
import { placeManyOrders } from "../../support/order-fixture.ts";
import { LIST, type Send, startService } from "../../support/service.ts";
import { brokenLimiters, fail, faultyLimiters, PASS } from "../../support/faults.ts";
import { wrapBinding } from "../../support/wrapped-bindings.ts";
import { eventLines, events, requestLines } from "../../support/written-lines.ts";

/** The replica's rows: copied from the primary database at the first query, then unchanged. */
let replica: Promise<D1Result> | null;
let replicaFault: string | null;

const read = async (query: () => Promise<D1Result>) => {
  if (replicaFault !== null) throw new Error(replicaFault);
  const { results } = await (replica ??= query());
  return { results, meta: { served_by_region: "WEUR", served_by_primary: false } };
};
const ORDERS: D1Database = Object.assign(Object.create(env.ORDERS), {
  withSession(constraint: string) {
    expect(constraint).toBe("first-unconstrained");
    return wrapBinding(env.ORDERS, read as never);
  },
});
const start = (bindings = {}) => startService({ LIST_READS: "nearest" }, { ORDERS, ...bindings });

let key: string;
beforeEach(async () => {
  replica = replicaFault = null;
  await placeManyOrders(2);
  ({ key } = await createApiKey());
});

const NEAR = "replica WEUR";
const PRIMARY = "primary unknown";

async function list(service: Send, options: { key: string } = { key }) {
  const orders = (await (await service(LIST, options)).json()) as { id: number }[];
  return [orders.map(({ id }) => id).join(), requestLines().at(-1)?.servedBy];
}

const cancel = async (service: Send) =>
  (await service(`${LIST}/2`, { method: "DELETE", key })).status;

test("a replica serves lists, but not to a key that has cancelled an order since", async () => {
  stopClock();
  const other = await createApiKey();
  const isolates = [start(), start()] as const;
  expect(await list(isolates[1])).toEqual(["1,2", NEAR]);
  expect(await cancel(isolates[0])).toBe(204);
  for (const isolate of isolates) {
    expect(await list(isolate)).toEqual(["1", PRIMARY]);
    expect(await list(isolate, other)).toEqual(["1,2", NEAR]);
  }
  advanceClock(10 * MINUTE_MS);
  expect(await list(start())).toEqual(["1,2", NEAR]);
});

test("by default, while the fallback limiter decides and for a second after a replica has failed, lists come from the primary database", async () => {
  stopClock();
  expect(await list(start(brokenLimiters()))).toEqual(["1,2", PRIMARY]);
  replicaFault = "D1_ERROR: no such table: order_list: SQLITE_ERROR";
  expect(await list(startService({}, { ORDERS }))).toEqual(["1,2", null]);
  const service = start();
  const served: unknown[] = [];
  for (const waitMs of [0, 999, 1, 8_999]) {
    advanceClock(waitMs);
    served.push(...(await list(service)));
    replicaFault = null;
  }
  expect(served).toEqual(["1,2", PRIMARY, "1,2", PRIMARY, "1,2", NEAR, "1,2", NEAR]);
  expect(events()).toStrictEqual(["fallback_limiter_on", "list_replica_failed"]);
  advanceClock(1);
  await list(service);
  expect(eventLines().at(-1)).toEqual({ event: "list_replica_recovered", failures: 1, seconds: 0 });
});

test("a cancellation counts if its first answer was lost, or if the fallback limiter admitted it and the isolate has called since", async () => {
  stopClock();
  const { bindings, script } = faultyLimiters();
  const [service, other] = [start(bindings), start()];
  expect((await list(other))[0]).toBe("1,2");
  script.always(fail("Internal error."));
  expect(await cancel(service)).toBe(204);
  script.always(PASS);
  advanceClock(1_000);
  expect(await list(service)).toEqual(["1", PRIMARY]);
  expect(await list(other)).toEqual(["1", PRIMARY]);
  advanceClock(HOUR_MS);
  expect((await list(other))[1]).toBe(NEAR);
  expect(await cancel(service)).toBe(404);
  expect(await list(other)).toEqual(["1", PRIMARY]);
});
