import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { testDroppedConnections } from "./dropped-connections.ts";
import { Load } from "./load.ts";
import { orderLines } from "./order-lines.ts";
import { Service } from "./service.ts";

/** The id of the order that many clients try to cancel at once. */
const CONTESTED_ID = 1_001;
/** The first id of the orders that are cancelled one by one. */
const FIRST_ID = 10_000;
const ORDERS = 5_000;
const FIRST_IMPORTED_ID = 1_000_000;
const IMPORTED = 20_000;
const CLIENTS = 4;

const store = new StoreFolder();
let service: Service;
let key: string;

beforeAll(async () => {
  const { load } = await createKeys(store, { load: AMPLE });
  key = load.key;
  const orders = orderLines(CONTESTED_ID, 1) + orderLines(FIRST_ID, ORDERS);
  await store.ordersJson(["import", "-"], orders);
  service = await Service.start(store.path);
});
afterAll(async () => {
  await service.end("SIGKILL");
  store.remove();
});

describe("a service under load", () => {
  it("loses no request or order while commands import, export and create keys", async () => {
    const cancelled = new Set<number>();
    const load = new Load(CLIENTS, async (turn) => {
      if (turn % 8 === 0) return service.list(key);
      const id = FIRST_ID + turn;
      const response = await service.cancel(key, id);
      if (response.status === 204) cancelled.add(id);
      return response;
    });

    const [imported, created] = await Promise.all([
      store.ordersJson(["import", "-"], orderLines(FIRST_IMPORTED_ID, IMPORTED)),
      store.keysJson("create", "--plan", "free", "--name", "Meanwhile"),
    ]);
    const exportFile = join(store.path, "orders.ndjson");
    do {
      await store.ordersJson(["export", exportFile]);
    } while (load.count(200) <= 5 && load.failures.length === 0);
    await load.stop();

    expect(imported).toEqual({ imported: IMPORTED });
    expect((await service.list(created.key)).status).toBe(200);
    expect(load.failures).toEqual([]);
    const { 200: lists, 204: cancellations, 404: missing = 0, ...others } = load.statuses;
    expect({ missing, ...others }).toEqual({ missing });
    expect(lists).toBeGreaterThan(5);
    expect(cancellations).toBe(cancelled.size);
    expect(cancelled.size).toBeGreaterThan(10);
    expect(readFileSync(exportFile, "utf8")).toContain(orderLines(FIRST_IMPORTED_ID, IMPORTED));

    const list: { id: number }[] = JSON.parse(await (await service.list(created.key)).text());
    const listed = new Set(list.map(({ id }) => id));
    const ids = Array.from({ length: ORDERS }, (_, index) => FIRST_ID + index);
    expect(ids.filter((id) => !listed.has(id))).toEqual(
      [...cancelled].toSorted((one, other) => one - other),
    );
  });

  it("lets exactly one of 50 simultaneous requests cancel an order", async () => {
    const cancels = Array.from({ length: 50 }, () => service.cancel(key, CONTESTED_ID));
    const statuses = (await Promise.all(cancels)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([204, ...Array<number>(49).fill(404)]);
  });
});

describe("clients that drop their connections", () =>
  testDroppedConnections(() => ({ service, key })));
