import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { openOrderDatabase } from "./isolates/order-database.ts";

const database = openOrderDatabase();
database.exec("INSERT INTO orders (id, status) VALUES (1, 'shipped'), (2, 'pending')");
beforeEach(() => database.exec("BEGIN"));
afterEach(() => database.exec("ROLLBACK"));
afterAll(() => database.close());

const stored = () => database.prepare("SELECT id, status FROM orders").all();

test.each([
  ["UPDATE OR REPLACE orders SET status = 'pending' WHERE id = 1", /a shipped order cannot be/],
  ["INSERT OR REPLACE INTO orders (id) VALUES (1)", /a shipped order cannot be/],
  [
    "INSERT INTO orders (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET status = excluded.status",
    /a shipped order cannot be/,
  ],
  ["DELETE FROM orders WHERE id = 1", /a shipped order cannot be/],
  ["INSERT INTO orders (id, status) VALUES (9, 'cancelled')", /CHECK/],
  ["INSERT INTO orders (id, pet_id) VALUES (9, 1.5)", /cannot store/],
  ["INSERT INTO orders (id, complete) VALUES (9, 2)", /CHECK/],
  ["INSERT INTO orders (id) VALUES (9223372036854775808)", /mismatch/],
  // Ids must not change: lists find former states by id.
  ["UPDATE OR REPLACE orders SET rowid = 9 WHERE id = 2", /id of an order/],
])("the database refuses %s", (statement, reason) => {
  const before = stored();
  expect(() => database.exec(statement)).toThrow(reason);
  expect(stored()).toStrictEqual(before);
});

test("the database stores only ship dates that exist, in UTC with three decimals", () => {
  const place = (shipDate: string) =>
    database.prepare("REPLACE INTO orders (id, ship_date) VALUES (2, ?)").run(shipDate);
  const times = ["08:30:00Z", "08:30:00.0000Z", "08:30:00.000", "24:00:00.000Z"];
  const wrong = [...times, "08:30:00.000+01:00", '08:30:00.000Z"}'].map((t) => `2026-11-20T${t}`);
  const days = ["2026-13-20", "2025-02-29", "2026-11-31", "+002026-11-20"];
  wrong.push(...days.map((day) => `${day}T08:30:00.000Z`), "", "2026-11-20 08:30:00.000Z");
  for (const shipDate of wrong) expect(() => place(shipDate), shipDate).toThrow("CHECK");
  for (const date of ["0000-01-01", "2024-02-29", "9999-12-31"]) place(`${date}T23:59:59.999Z`);
});
