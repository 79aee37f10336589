import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { placeManyOrders } from "../../support/order-fixture.ts";
import { LIST, settle, startService } from "../../support/service.ts";
import { brokenLimiters, faultyLimiters, LOST, PASS } from "../../support/faults.ts";
import { eventLines, events, requestLines } from "../../support/written-lines.ts";

const VARS = { LIST_READS: "nearest" };

/** The replica's rows: copied from the primary database at the first query, then unchanged. */
let replica: Promise<D1Result> | null;
let replicaFault: string | null;

const session = {
  prepare: (sql: string) => ({
    bind: (...values: unknown[]) => ({
      all: async () => {
        if (replicaFault !== null) throw new Error(replicaFault);
        replica ??= env.ORDERS.prepare(sql)
          .bind(...values)
          .all();
        const { results } = await replica;
        return { results, meta: { served_by_region: "WEUR", served_by_primary: false } };
      },
    }),
  }),
};

const bindings = {
  ORDERS: new Proxy(env.ORDERS, {
    get: (target, name) =>
      name === "withSession" ? () => session : Reflect.get(target, name).bind(target),
  }),
};

beforeEach(() => void (replica = replicaFault = null));

async function idsOf(response: Response): Promise<number[]> {
  return ((await response.json()) as { id: number }[]).map(({ id }) => id);
}

const lastServedBy = () => requestLines().at(-1)?.servedBy;

test("a replica serves lists, but not to a key that has cancelled an order since", async () => {
  stopClock();
  await placeManyOrders(3);
  const [{ key }, { key: other }] = [await createApiKey(), await createApiKey()];
  const isolates = [startService(VARS, bindings), startService(VARS, bindings)] as const;
  expect(await idsOf(await isolates[1](LIST, { key }))).toStrictEqual([1, 2, 3]);
  expect(lastServedBy()).toBe("replica WEUR");
  expect((await isolates[0](`${LIST}/2`, { method: "DELETE", key })).status).toBe(204);
  for (const isolate of isolates) {
    expect(await idsOf(await isolate(LIST, { key }))).toStrictEqual([1, 3]);
    expect(lastServedBy()).toBe("primary unknown");
    expect(await idsOf(await isolate(LIST, { key: other }))).toStrictEqual([1, 2, 3]);
  }
  advanceClock(3_600_000);
  const third = startService(VARS, bindings);
  expect(await idsOf(await third(LIST, { key }))).toStrictEqual([1, 2, 3]);
});

test("by default, lists come from the primary database, without sessions", async () => {
  await placeManyOrders(2);
  replicaFault = "A session was used.";
  const { key } = await createApiKey();
  expect(await idsOf(await startService({}, bindings)(LIST, { key }))).toStrictEqual([1, 2]);
  expect(eventLines()).toStrictEqual([]);
});

test("while the fallback limiter decides, lists come from the primary database", async () => {
  await placeManyOrders(2);
  const { key } = await createApiKey();
  const service = startService(VARS, { ...bindings, ...brokenLimiters() });
  expect((await service(LIST, { key })).status).toBe(200);
  expect(lastServedBy()).toBe("primary unknown");
});

test("if the replica fails, the primary database answers, which is logged once, and a replica that answers again serves", async () => {
  stopClock();
  await placeManyOrders(2);
  const { key } = await createApiKey();
  replicaFault = "D1_ERROR: no such table: order_list: SQLITE_ERROR";
  const service = startService(VARS, bindings);
  const servedBy: (string | null | undefined)[] = [];
  for (const pauseMs of [0, 0, 1_000, 0]) {
    advanceClock(pauseMs);
    expect(await idsOf(await service(LIST, { key }))).toStrictEqual([1, 2]);
    if (servedBy.push(lastServedBy()) === 2) replicaFault = null;
  }
  const [primary, near] = ["primary unknown", "replica WEUR"];
  expect(servedBy).toStrictEqual([primary, primary, near, near]);
  expect(events()).toStrictEqual(["list_replica_failed"]);
});

test.each([1, 5])(
  "a cancellation that the Durable Object cannot record %i times is answered and logged, and recorded once later",
  async (failures) => {
    await placeManyOrders(2);
    const { key } = await createApiKey();
    const { bindings: limiters, script } = faultyLimiters();
    const service = startService(VARS, { ...bindings, ...limiters });
    const other = startService(VARS, bindings);
    expect(await idsOf(await other(LIST, { key }))).toStrictEqual([1, 2]);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    script.next(PASS, ...Array.from({ length: failures }, () => LOST));
    expect((await service(`${LIST}/2`, { method: "DELETE", key })).status).toBe(204);
    expect(events()).toStrictEqual(["cancellation_not_recorded"]);
    const isSettled = vi.fn();
    const settled = settle().then(isSettled);
    await vi.advanceTimersByTimeAsync(5_000 * failures - 1);
    expect(isSettled).not.toHaveBeenCalled();
    expect(await idsOf(await other(LIST, { key }))).toStrictEqual([1, 2]);
    expect(await idsOf(await service(LIST, { key }))).toStrictEqual([1]);
    await vi.advanceTimersByTimeAsync(1);
    vi.useRealTimers();
    await settled;
    expect(script.calls).toBe(failures + 3);
    expect(await idsOf(await other(LIST, { key }))).toStrictEqual([1]);
  },
);

test("a repeated cancellation counts as one, because the first answer may be lost", async () => {
  await placeManyOrders(2);
  const { key } = await createApiKey();
  const isolates = [startService(VARS, bindings), startService(VARS, bindings)] as const;
  expect(await idsOf(await isolates[1](LIST, { key }))).toStrictEqual([1, 2]);
  await env.ORDERS.exec("DELETE FROM orders WHERE id = 2");
  expect((await isolates[0](`${LIST}/2`, { method: "DELETE", key })).status).toBe(404);
  expect(await idsOf(await isolates[1](LIST, { key }))).toStrictEqual([1]);
});
