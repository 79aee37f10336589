import { expect, onTestFinished, test } from "vitest";
import { IMPORT_SIZES, importOrders } from "../../../src/operator/orders/import.ts";
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

test("the first ten orders of a file that would turn back are named in its order, however it is divided", async () => {
  const { sqlite, open } = openMemoryStore();
  const ids = Array.from({ length: 12 }, (_, index) => 12 - index);
  const shipped = ids.map((id) => `(${id}, 'shipped')`);
  sqlite.exec(`INSERT INTO orders (id, status) VALUES ${shipped.join()}`);
  using file = new SortedOrders();
  await file.read([Buffer.from(ids.map((id) => `{"id":${id}}`).join("\n"))] as never);
  const { partBytes } = IMPORT_SIZES;
  onTestFinished(() => void (IMPORT_SIZES.partBytes = partBytes));
  IMPORT_SIZES.partBytes = 60;
  const first = ids.slice(0, 10).map((id, index) => `line ${index + 1}: order ${id} has shipped`);
  await expect(importOrders(open(), file)).rejects.toThrow(new RegExp(first.join("[^]*")));
});
