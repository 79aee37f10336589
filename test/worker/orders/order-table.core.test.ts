import { afterEach, beforeEach, expect, test } from "vitest";
import { openOrderDatabase } from "./isolates/order-database.ts";

let database: ReturnType<typeof openOrderDatabase>;
beforeEach(() => {
  database = openOrderDatabase();
  database.exec(
    "INSERT INTO orders (id, quantity, status) VALUES (1, 4, 'shipped'), (2, NULL, 'pending'), (3, 5, 'shipped')",
  );
});
afterEach(() => database.close());

const stored = () => database.prepare("SELECT id, quantity, status FROM orders").all();

test.each([
  "UPDATE orders SET status = 'pending' WHERE id = 1",
  "UPDATE orders SET status = 'pending'",
  "UPDATE OR IGNORE orders SET status = 'pending' WHERE id = 1",
  "UPDATE OR REPLACE orders SET status = 'pending' WHERE id = 1",
  "INSERT OR REPLACE INTO orders (id) VALUES (1)",
  "REPLACE INTO orders (id, status) VALUES (1, 'pending')",
  "INSERT INTO orders (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET status = excluded.status",
  "DELETE FROM orders WHERE id = 1",
  "DELETE FROM orders",
])("the database rejects changes of a shipped order's status: %s", (statement) => {
  const before = stored();
  expect(() => database.exec(statement)).toThrow(/a shipped order cannot be/);
  expect(stored()).toStrictEqual(before);
});

test("a shipped order's other fields can change, and an order can ship", () => {
  database.exec("UPDATE orders SET complete = 1 WHERE id = 1");
  database.exec("REPLACE INTO orders (id, quantity, status) VALUES (1, 8, 'shipped')");
  database.exec("UPDATE orders SET status = 'shipped' WHERE id = 2");
  expect(stored()).toMatchObject([{ quantity: 8, status: "shipped" }, { status: "shipped" }, {}]);
});

test.each([
  "INSERT INTO orders (id, status) VALUES (9, 'lost')",
  "INSERT INTO orders (id, status) VALUES (9, NULL)",
  "INSERT INTO orders (id, status) VALUES (9, 'cancelled')",
  "INSERT INTO orders (id, quantity) VALUES (9, 'many')",
  "INSERT INTO orders (id, pet_id) VALUES (9, 1.5)",
  "INSERT INTO orders (id, complete) VALUES (9, 2)",
  "INSERT INTO orders (id) VALUES (9223372036854775808)",
  "INSERT INTO orders (id) VALUES (9), (9)",
  "INSERT INTO order_list (id, version) VALUES (2, 'x')",
  // Ids must not change: lists find former states by id.
  "UPDATE OR REPLACE orders SET rowid = 9 WHERE id = 2",
])("the database rejects %s", (statement) => {
  const before = stored();
  const reason = /CHECK|NOT NULL|cannot store|UNIQUE|mismatch|id of an order/;
  expect(() => database.exec(statement)).toThrow(reason);
  expect(stored()).toStrictEqual(before);
});

test("the database stores only ship dates that exist, in UTC with three decimals", () => {
  const place = (shipDate: string) =>
    database.prepare("REPLACE INTO orders (id, ship_date) VALUES (2, ?)").run(shipDate);
  const wrong = [
    ["", "2026-11-20", "2026-11-20T08:30:00Z", "2026-11-20T08:30:00.00Z"],
    ["2026-11-20T08:30:00.0000Z", "2026-11-20T08:30:00.000", "2026-11-20T08:30:00.000+01:00"],
    ["2026-11-20t08:30:00.000z", "2026-11-20 08:30:00.000Z", "2026-13-20T08:30:00.000Z"],
    ["2026-11-20T24:00:00.000Z", "2026-11-20T08:60:00.000Z", "2026-11-20T08:30:60.000Z"],
    ["2026-02-30T08:30:00.000Z", "2026-11-31T08:30:00.000Z", "2025-02-29T08:30:00.000Z"],
    ["2026-11-00T08:30:00.000Z", '2026-11-20T08:30:00.000Z"}', "+002026-11-20T08:30:00.000Z"],
  ].flat();
  for (const shipDate of wrong) expect(() => place(shipDate), shipDate).toThrow("CHECK");
  for (const date of ["0000-01-01", "2024-02-29", "9999-12-31"]) place(`${date}T23:59:59.999Z`);
});
