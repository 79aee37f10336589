import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";

function run(statement: string): Promise<D1Result> {
  return env.ORDERS.prepare(statement).run();
}

describe("the database rejects changes of a shipped order's status", () => {
  test.each([
    ["to pending", "UPDATE orders SET status = 'pending' WHERE id = 1"],
    ["to cancelled", "UPDATE orders SET status = 'cancelled', cancelled_at = 1 WHERE id = 1"],
    ["in an update of all orders", "UPDATE orders SET status = 'pending'"],
    ["OR IGNORE", "UPDATE OR IGNORE orders SET status = 'pending' WHERE id = 1"],
    ["OR REPLACE", "UPDATE OR REPLACE orders SET status = 'pending' WHERE id = 1"],
    ["by INSERT OR REPLACE", "INSERT OR REPLACE INTO orders (id) VALUES (1)"],
    ["by REPLACE", "REPLACE INTO orders (id, status) VALUES (1, 'pending')"],
    [
      "by REPLACE with a cancelled order",
      "REPLACE INTO orders (id, status, cancelled_at) VALUES (1, 'cancelled', 1)",
    ],
    [
      "by an upsert",
      "INSERT INTO orders (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET status = excluded.status",
    ],
    ["by DELETE", "DELETE FROM orders WHERE id = 1"],
    ["by DELETE of everything", "DELETE FROM orders"],
  ])("%s", async (_, statement) => {
    await placeOrder(1n, { quantity: 4n, status: "shipped" });
    await placeOrder(2n);
    await placeOrder(3n, { quantity: 5n, status: "shipped" });
    await expect(run(statement)).rejects.toThrow(/a shipped order cannot be/);
    expect(await storedOrder(1n)).toMatchObject({ quantity: "4", status: "shipped" });
    expect(await storedOrder(2n)).toMatchObject({ status: "pending" });
  });

  test("but changes of other fields and shipping an order are accepted", async () => {
    await placeOrder(1n, { status: "shipped" });
    await placeOrder(2n);
    await run("UPDATE orders SET complete = 1 WHERE id = 1");
    await run("REPLACE INTO orders (id, quantity, status) VALUES (1, 8, 'shipped')");
    await run("UPDATE orders SET status = 'shipped' WHERE id = 2");
    expect(await storedOrder(1n)).toMatchObject({ quantity: "8", status: "shipped" });
    expect(await storedOrder(2n)).toMatchObject({ status: "shipped" });
  });

  test("and a batch with such a change has no effect", async () => {
    await placeOrder(1n, { status: "shipped" });
    await placeOrder(2n);
    const batch = env.ORDERS.batch([
      env.ORDERS.prepare("UPDATE orders SET quantity = 9 WHERE id = 2"),
      env.ORDERS.prepare("UPDATE orders SET status = 'pending' WHERE id = 1"),
    ]);
    await expect(batch).rejects.toThrow(/shipped/);
    expect(await storedOrder(2n)).toMatchObject({ quantity: null });
  });
});

describe("the database rejects", () => {
  test.each([
    ["an unknown status", "INSERT INTO orders (id, status) VALUES (1, 'lost')"],
    ["no status", "INSERT INTO orders (id, status) VALUES (1, NULL)"],
    ["a cancelled order without a time", "INSERT INTO orders (id, status) VALUES (1, 'cancelled')"],
    [
      "a pending order with a time of cancellation",
      "INSERT INTO orders (id, cancelled_at) VALUES (1, 5)",
    ],
    ["text instead of a number", "INSERT INTO orders (id, quantity) VALUES (1, 'many')"],
    ["a fraction", "INSERT INTO orders (id, pet_id) VALUES (1, 1.5)"],
    ["a boolean other than 0 or 1", "INSERT INTO orders (id, complete) VALUES (1, 2)"],
    ["an id beyond int64", "INSERT INTO orders (id) VALUES (9223372036854775808)"],
    ["the same id twice", "INSERT INTO orders (id) VALUES (1), (1)"],
    ["a second version of the list", "INSERT INTO order_list (id, version) VALUES (2, 'x')"],
  ])("%s", async (_, statement) => {
    await expect(run(statement)).rejects.toThrow(/CHECK|NOT NULL|cannot store|UNIQUE|mismatch/);
    expect(await storedOrder(1n)).toBeNull();
  });

  test("another id for an order, because a list reads former states by id", async () => {
    await placeOrder(1n);
    await expect(run("UPDATE OR REPLACE orders SET rowid = 2")).rejects.toThrow(/id of an order/);
    expect(await storedOrder(2n)).toBeNull();
  });

  test("a ship date that does not exist or has another form", async () => {
    const shipDates = [
      "",
      "2026-11-20",
      "2026-11-20T08:30:00Z",
      "2026-11-20T08:30:00.00Z",
      "2026-11-20T08:30:00.0000Z",
      "2026-11-20T08:30:00.000",
      "2026-11-20T08:30:00.000+01:00",
      "2026-11-20t08:30:00.000z",
      "2026-11-20 08:30:00.000Z",
      "2026-13-20T08:30:00.000Z",
      "2026-11-20T24:00:00.000Z",
      "2026-11-20T08:60:00.000Z",
      "2026-11-20T08:30:60.000Z",
      "2026-02-30T08:30:00.000Z",
      "2026-11-31T08:30:00.000Z",
      "2025-02-29T08:30:00.000Z",
      "2026-11-00T08:30:00.000Z",
      '2026-11-20T08:30:00.000Z"}',
      "+002026-11-20T08:30:00.000Z",
    ];
    for (const shipDate of shipDates) {
      await expect(placeOrder(1n, { shipDate }), shipDate).rejects.toThrow();
    }
    expect(await storedOrder(1n)).toBeNull();
  });

  test.each(["0000-01-01T00:00:00.000Z", "2024-02-29T23:59:59.999Z", "9999-12-31T23:59:59.999Z"])(
    "but accepts the ship date %s",
    async (shipDate) => {
      await placeOrder(1n, { shipDate });
      expect(await storedOrder(1n)).toMatchObject({ shipDate });
    },
  );
});
