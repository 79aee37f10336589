import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { countCancelled, purgeCancelled } from "../../../src/operator/orders/purge.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { failure, runInProcess } from "../in-process.ts";
import { openMemoryStore } from "./memory-store.ts";

const BEFORE = new Date("2026-06-30T12:00:00Z");

// Returns SQL that inserts cancelled orders with the ids -1, -2, ..., and again -1. The first one
// was cancelled at `BEFORE`, and each further one 1 ms earlier.
function cancelledOrders(count: number): string {
  return `
    WITH RECURSIVE n (back) AS (SELECT 0 UNION ALL SELECT back + 1 FROM n WHERE back + 1 < ${count})
    INSERT INTO cancelled_orders (cancelled_at, id)
    SELECT ${BEFORE.getTime()} - back, -1 - back % ${count - 1} FROM n`;
}

// 20,000 orders fill two steps, so a third step must find that no order is left.
it.each([
  [25_000, 3],
  [20_000, 3],
])("deletes %i cancelled orders in %i steps, and nothing else", async (count, steps) => {
  const store = openMemoryStore();
  const readAll = (text: string) => store.sqlite.prepare(text).all();
  store.sqlite.exec("INSERT INTO orders (id, status) VALUES (-2, 'pending'), (-3, 'shipped')");
  store.sqlite.exec(cancelledOrders(count + 1));
  const kept = () => [
    readAll("SELECT * FROM orders"),
    readAll("SELECT version FROM order_list"),
    readAll("SELECT version, count FROM order_segments"),
  ];
  const before = kept();
  let queries = 0;
  store.beforeQuery = () => (queries += 1);
  expect(await countCancelled(store, BEFORE)).toBe(count);
  expect(await purgeCancelled(store, BEFORE, count)).toBe(count);
  expect(queries).toBe(1 + steps);
  expect(readAll("SELECT cancelled_at, id FROM cancelled_orders")).toEqual([
    { cancelled_at: BEFORE.getTime(), id: -1 },
  ]);
  expect(kept()).toEqual(before);
  await store.close();
});

describe("orders purge --env", () => {
  const cloudflare = useFakeCloudflare("production");
  const database = () => cloudflare.d1.find("store-orders-production-orders");
  const left = () => database().sqlite.prepare("SELECT id FROM cancelled_orders").all();
  beforeEach(() => {
    vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
    database().sqlite.exec(`DELETE FROM cancelled_orders; ${cancelledOrders(3)}`);
  });
  afterAll(() => void vi.restoreAllMocks());
  const purge = (...args: string[]) =>
    runInProcess(ordersProgram(), ["purge", "--env", "production", ...args]);

  it("deletes nothing without a confirmation", async () => {
    const time = ["--cancelled-before", "2026-06-30T14:00:00+02:00"];
    const refused = await purge(...time, "--json");
    expect(refused).toEqual(failure("This deletes 2 cancelled orders of production"));
    expect(refused.stderr).toContain("confirm with --yes");
    const counted = await purge(...time, "--dry-run", "--json");
    expect(counted).toEqual({ status: 0, stdout: '{"wouldPurge":2}\n', stderr: "" });
    expect(left()).toHaveLength(3);

    const deleted = await purge(...time, "--yes");
    expect(deleted).toEqual({ status: 0, stdout: "Deleted 2 cancelled orders.\n", stderr: "" });
    expect(left()).toEqual([{ id: -1 }]);
    // No order is left to delete, so no confirmation is needed.
    expect(await purge(...time)).toMatchObject({ stdout: "Deleted 0 cancelled orders.\n" });
  });

  it.each([
    [[], 2, "required option '--cancelled-before <date>' not specified"],
    [["--cancelled-before", "yesterday"], 2, "Expected a date"],
    [["--cancelled-before", "2999-01-01"], 1, "is in the future: name a time in the past"],
  ])("refuses %j with status %i", async (args, status, message) => {
    expect(await purge(...args, "--yes")).toEqual(failure(message, status));
    expect(left()).toHaveLength(3);
  });
});
