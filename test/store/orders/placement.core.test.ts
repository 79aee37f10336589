import { expect, test } from "vitest";
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
