import { expect, test } from "vitest";
import { importOrders } from "../../../src/operator/orders/import.ts";
import { SortedOrders } from "../../../src/operator/orders/sorted-orders.ts";
import { placeOrders } from "../../../src/store/orders/placement.ts";
import { openMemoryStore } from "../../operator/orders/memory-store.ts";

test("a placement whose answer is lost is not reported as refused, although its order has shipped since", async () => {
  const { sqlite, open } = openMemoryStore();
  const shipAndLose = () => {
    sqlite.exec("UPDATE orders SET status = 'shipped'");
    throw new Error("Network connection lost.");
  };
  const place = (store: ReturnType<typeof open>) =>
    placeOrders(store, [{ id: 1n, status: "pending" }]);
  await expect(place(open(undefined, shipAndLose))).rejects.toThrow("Network connection lost.");
  await expect(place(open())).rejects.toMatchObject({ code: "order_already_shipped" });
});

test.each(["orders (id) VALUES (1)", "cancelled_orders (cancelled_at, id) VALUES (1, 1)"])(
  "an import of cancelled orders fails if another order comes before them: %s",
  async (other) => {
    const { sqlite, open } = openMemoryStore();
    const store = open(() => sqlite.exec(`INSERT INTO ${other}`));
    using file = new SortedOrders();
    const line = '{"id":1,"status":"cancelled","cancelledAt":"2026-11-20T08:30:00Z"}';
    await file.read([Buffer.from(line)] as never);
    const importing = importOrders(store, file);
    await expect(importing).rejects.toThrow("which only an empty store takes");
  },
);
