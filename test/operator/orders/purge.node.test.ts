import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { countCancelled, purgeCancelled } from "../../../src/operator/orders/purge.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { runInProcess } from "../in-process.ts";
import { OpenStore } from "../store-folder.ts";
import { openMemoryStore } from "./memory-store.ts";

const BEFORE = new Date("2026-06-30T12:00:00Z");

/**
 * Returns SQL that inserts cancelled orders with the ids -1, -2, and so on. Order -1 was cancelled
 * at `BEFORE`, and each further order a millisecond earlier.
 */
function cancelledOrders(count: number): string {
  return `
    WITH RECURSIVE n (back) AS (SELECT 0 UNION ALL SELECT back + 1 FROM n WHERE back + 1 < ${count})
    INSERT INTO cancelled_orders (cancelled_at, id)
    SELECT ${BEFORE.getTime()} - back, -1 - back FROM n`;
}

describe("purging cancelled orders", () => {
  it("deletes in steps all orders cancelled before the given time, and nothing else", async () => {
    const store = openMemoryStore();
    const readAll = (text: string) => store.sqlite.prepare(text).all();
    store.sqlite.exec("INSERT INTO orders (id, status) VALUES (-2, 'pending'), (-3, 'shipped')");
    store.sqlite.exec(cancelledOrders(25_001));
    const kept = () => [
      readAll("SELECT * FROM orders"),
      readAll("SELECT version FROM order_list"),
      readAll("SELECT version, count FROM order_segments"),
    ];
    const before = kept();
    let queries = 0;
    store.beforeQuery = () => (queries += 1);
    expect(await countCancelled(store, BEFORE)).toBe(25_000);
    expect(await purgeCancelled(store, BEFORE, 25_000)).toBe(25_000);
    expect(queries).toBe(1 + 3);
    expect(readAll("SELECT cancelled_at, id FROM cancelled_orders")).toEqual([
      { cancelled_at: BEFORE.getTime(), id: -1 },
    ]);
    expect(kept()).toEqual(before);
    await store.close();
  });

  it("ends if the last step deletes as many orders as fit in a step", async () => {
    const store = openMemoryStore();
    store.sqlite.exec(cancelledOrders(10_001));
    expect(await purgeCancelled(store, BEFORE, 10_000)).toBe(10_000);
    await store.close();
  });
});

describe("orders purge", () => {
  const store = new OpenStore();
  afterAll(() => store.close());
  const purge = (...args: string[]) => store.orders(["purge", ...args]);

  it("counts orders with --dry-run, and deletes them from the local store without it", async () => {
    const database = await store.database("orders");
    await database.transaction([{ sql: cancelledOrders(4), params: [] }]);
    const time = ["--cancelled-before", "2026-06-30T14:00:00+02:00"];
    const counted = await purge(...time, "--dry-run", "--json");
    expect(counted).toEqual({ status: 0, stdout: '{"wouldPurge":3}\n', stderr: "" });
    const deleted = await purge(...time);
    expect(deleted).toEqual({ status: 0, stdout: "Deleted 3 cancelled orders.\n", stderr: "" });
  });

  it.each([
    [[], 2, "required option '--cancelled-before <date>' not specified"],
    [["--cancelled-before", "yesterday"], 2, "Expected a date"],
    [["--cancelled-before", "2999-01-01"], 1, "is in the future: name a time in the past"],
  ])("refuses %j with status %i", async (args, status, message) => {
    const outcome = await purge(...args);
    expect(outcome).toMatchObject({ status, stdout: "" });
    expect(outcome.stderr).toContain(message);
  });
});

describe("orders purge --env", () => {
  const cloudflare = useFakeCloudflare("production");
  const database = () => cloudflare.d1.find("store-orders-production-orders");
  beforeEach(() => {
    vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
    database().sqlite.exec(`DELETE FROM cancelled_orders; ${cancelledOrders(3)}`);
  });
  afterAll(() => void vi.restoreAllMocks());
  const purge = (...args: string[]) =>
    runInProcess(ordersProgram(), [
      "purge",
      "--env",
      "production",
      "--cancelled-before",
      BEFORE.toISOString(),
      ...args,
    ]);

  it("deletes nothing without a confirmation", async () => {
    const refused = await purge("--json");
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toContain("confirm with --yes");
    expect(await purge("--dry-run", "--json")).toMatchObject({ stdout: '{"wouldPurge":2}\n' });
    const left = database().sqlite.prepare("SELECT id FROM cancelled_orders").all();
    expect(left).toHaveLength(3);
  });

  it("deletes from the remote database with --yes", async () => {
    expect(await purge("--yes", "--json")).toMatchObject({ status: 0, stdout: '{"purged":2}\n' });
    const left = database().sqlite.prepare("SELECT id FROM cancelled_orders").all();
    expect(left).toEqual([{ id: -1 }]);
  });
});
