import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import {
  listReads,
  type Operations,
  OPERATION_NAMES,
  OPERATIONS,
  sumOperations,
} from "./operations.ts";
import { createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { placeManyOrders } from "../../support/order-fixture.ts";
import { CountedService } from "./counted-service.ts";

/** Creates a store with small segments, and an isolate that remembers the key but no segments. */
async function coldService(segments: number, ordersPerSegment: number) {
  await placeManyOrders(segments * ordersPerSegment);
  const insert = env.ORDERS.prepare(
    "INSERT INTO order_segments (first_id, version, count) VALUES (?, ?, 0)",
  );
  const firstIds = Array.from(
    { length: segments - 1 },
    (_, index) => (index + 1) * ordersPerSegment + 1,
  );
  await env.ORDERS.batch([
    ...firstIds.map((firstId) => insert.bind(firstId, `first ${firstId}`)),
    env.ORDERS.prepare("UPDATE order_segments SET count = ?").bind(ordersPerSegment),
  ]);
  const { key, id } = await createEnterpriseKey(1_000, 1_000);
  const service = new CountedService({ key });
  await service.send({ method: "DELETE", path: "/none" });
  await service.watchObject(`key:${id}`);
  return service;
}

/**
 * Expects every count of a list's operations to equal the estimate of listReads. Only
 * the rows read may be up to 15 % below their estimate.
 */
function expectList(counted: Operations, reads: Parameters<typeof listReads>[0]): void {
  const table = sumOperations([
    [OPERATIONS.unchangedList, 1],
    [listReads(reads), 1],
  ]);
  for (const name of OPERATION_NAMES) {
    if (name !== "rowsRead") expect(counted[name], name).toBe(table[name]);
  }
  expect(counted.rowsRead).toBeLessThanOrEqual(table.rowsRead);
  expect(counted.rowsRead).toBeGreaterThanOrEqual(0.85 * table.rowsRead);
}

test.for([
  [2, 200],
  [16, 200],
  [40, 200],
] as const)("lists with %d segments of %d orders each", async ([segments, ordersPerSegment]) => {
  const service = await coldService(segments, ordersPerSegment);
  const all = { manifestShare: 1, segments, segmentsRead: segments, ordersPerSegment };
  expectList(await service.operationsOf({}), all);

  await env.ORDERS.exec("UPDATE orders SET quantity = 77 WHERE id = 7");
  expectList(await service.operationsOf({}), { ...all, segmentsRead: 1 });

  service.forget();
  await service.send({ method: "DELETE", path: "/none" });
  expectList(await service.operationsOf({}), all);
});
