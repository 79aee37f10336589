import { sql } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { exportPages } from "../../../src/operator/orders/export-pages.ts";
import { importOrders, readOrders } from "../../../src/operator/orders/import.ts";
import { orderImportParts, orders } from "../../../src/schema/orders.ts";
import { OpenStore } from "../store-folder.ts";

const store = new OpenStore();
let database: StoreDatabase;
beforeAll(async () => {
  database = await store.database("orders");
});
afterAll(() => store.close());

/** The first order id of the current test. Each test has its own range of a million ids. */
let id = 0;
beforeEach(() => {
  id += 1_000_000;
});

afterEach(async () => {
  const left = await database.orm.select({ count: sql<number>`count(*)` }).from(orderImportParts);
  expect(left).toEqual([{ count: 0 }]);
  const [segments] = await database.orm.all(sql`
    SELECT sum(count), (SELECT count(*) FROM orders), (SELECT count(*) FROM order_bulk_change)
    FROM order_segments`);
  const [count, ...others] = segments as number[];
  expect(others, "orders in segments, bulk changes").toEqual([count, 0]);
});

async function* bytes(text: string) {
  yield new TextEncoder().encode(text);
}

async function run(lines: readonly object[] | string, target = database): Promise<number> {
  const text =
    typeof lines === "string" ? lines : lines.map((line) => JSON.stringify(line)).join("\n");
  using read = await readOrders(bytes(text));
  await importOrders(target, read);
  return read.count();
}

/** Exports the orders of the current test. */
async function exported(): Promise<any[]> {
  const lines: string[] = [];
  for await (const page of exportPages(database)) lines.push(...page.lines.trim().split("\n"));
  return lines
    .map((line) => JSON.parse(line))
    .filter((order) => order.id >= id && order.id < id + 1_000_000);
}

async function cancel(orderId: number): Promise<void> {
  await database.orm
    .update(orders)
    .set({ status: "cancelled", cancelledAt: new Date() })
    .where(sql`id = ${orderId}`);
}

async function ship(orderId: number): Promise<void> {
  await database.orm
    .update(orders)
    .set({ status: "shipped" })
    .where(sql`id = ${orderId}`);
}

/** The number of orders in a large import; more orders with all fields than one INSERT can add. */
const MANY = 60_000;

/** Returns an order with all fields. */
function fullOrder(offset: number, status: "pending" | "shipped"): object {
  const shipDate = "2026-11-20T08:30:00.000Z";
  const petId = Number.MAX_SAFE_INTEGER;
  return { id: id + offset, petId, quantity: offset, shipDate, complete: true, status };
}

/**
 * Returns the orders database with a hook: `happens` is called before the transaction that inserts
 * the imported orders, with the number of its INSERT statements.
 */
function beforePlacing(happens: (statements: number) => Promise<void>): StoreDatabase {
  return {
    ...database,
    transaction: async (statements) => {
      const placing = statements.filter((statement) => statement.sql.includes("INTO orders"));
      if (placing.length > 0) await happens(placing.length);
      await database.transaction(statements);
    },
  };
}

describe("importOrders", () => {
  it("inserts new orders and replaces known orders completely", async () => {
    await run([{ id, petId: 1, quantity: 2, shipDate: "2026-11-20T08:30:00Z", complete: true }]);
    expect(
      await run([
        { id: id + 1, quantity: 3 },
        { id, petId: 9, complete: false },
      ]),
    ).toBe(2);
    expect(await exported()).toEqual([
      { id, petId: 9, complete: false, status: "pending" },
      { id: id + 1, quantity: 3, status: "pending" },
    ]);
  });

  it("uses the last of several lines with one id, and counts them as one order", async () => {
    const filling = Array.from({ length: 5_000 }, (_, index) => ({ id: id + 1 + index }));
    const first = { id, quantity: 1, status: "shipped" };
    expect(await run([first, { id, quantity: 2 }, ...filling, { id, petId: 3 }])).toBe(5_001);
    expect((await exported())[0]).toEqual({ id, petId: 3, status: "pending" });
  });

  it("accepts lines in any sequence, and more orders than one statement can place", async () => {
    const descending = Array.from({ length: MANY }, (_, index) => MANY - 1 - index);
    const lines = [
      ...descending.map((offset) => fullOrder(offset, "shipped")),
      ...descending.map((offset) => fullOrder(offset, offset % 2 === 0 ? "pending" : "shipped")),
    ];
    const placing: number[] = [];
    const watched = beforePlacing(async (statements) => void placing.push(statements));
    expect(await run(lines, watched)).toBe(MANY);
    expect(placing).toEqual([2]);
    const placed = await exported();
    expect(placed).toHaveLength(MANY);
    expect(placed[0]).toEqual(fullOrder(0, "pending"));
    expect(placed.at(-1)).toEqual(fullOrder(MANY - 1, "shipped"));
    expect(placed.filter(({ status }) => status === "pending")).toHaveLength(MANY / 2);
  });

  it("writes nothing before the whole file is read", async () => {
    const untouched = {} as StoreDatabase;
    await expect(run('{"id":1}\n{"id":1.5}', untouched)).rejects.toThrow("line 2: id");
  });

  it("places a new order with the id of a cancelled order", async () => {
    await run([{ id, quantity: 1 }]);
    await cancel(id);
    expect(await exported()).toEqual([]);
    await run([{ id, petId: 2 }]);
    expect(await exported()).toEqual([{ id, petId: 2, status: "pending" }]);
  });

  it("changes shipped orders, but refuses a line that makes one pending again", async () => {
    await run([
      { id, status: "shipped" },
      { id: id + 1, status: "shipped" },
    ]);
    await run([{ id, quantity: 5, status: "shipped" }]);
    const before = await exported();
    const lines = [{ id: id + 2 }, { id, quantity: 6, status: "shipped" }, { id: id + 1 }, { id }];
    await expect(run(lines)).rejects.toThrow(
      `line 3: order ${id + 1} has shipped, which cannot be turned back`,
    );
    await expect(run(JSON.stringify(lines))).rejects.toThrow(`element 3: order ${id + 1}`);
    expect(await exported()).toEqual(before);
    expect(await run([{ id }, { id, status: "shipped" }])).toBe(1);
  });

  it("names the line of an order that ships during the import", async () => {
    await run([{ id }]);
    const racing = beforePlacing(() => ship(id));
    await expect(run([{ id: id + 1 }, { id }], racing)).rejects.toThrow(
      `line 2: order ${id} has shipped`,
    );
    expect(await exported()).toEqual([{ id, status: "shipped" }]);
  });

  it("places nothing if the last of several statements is refused", async () => {
    const last = id + MANY - 1;
    await run([{ id: last }]);
    const lines = Array.from({ length: MANY }, (_, offset) => fullOrder(offset, "pending"));
    const racing = beforePlacing(() => ship(last));
    await expect(run(lines, racing)).rejects.toThrow(`line ${MANY}: order ${last} has shipped`);
    expect(await exported()).toEqual([{ id: last, status: "shipped" }]);
  });

  it("imports nothing if one line of many is invalid, and names this line", async () => {
    const good = Array.from({ length: 20_000 }, (_, index) => JSON.stringify({ id: id + index }));
    const bad = '{"id":1,"quantity":1.5}';
    await expect(run([...good, bad, "neither"].join("\r\n"))).rejects.toThrow(
      /^line 20001: quantity: expected an integer .*, got 1\.5$/,
    );
    await expect(run(`[${[...good, bad].join()}]`)).rejects.toThrow(/^element 20001: quantity: /);
    await expect(run(`[${good.join()}`)).rejects.toThrow(
      /^element 20000: the file ends within it$/,
    );
    expect(await exported()).toEqual([]);
  });
});
