import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { testDroppedConnections } from "./dropped-connections.ts";
import { Load } from "./load.ts";
import { orderLines } from "./order-lines.ts";
import { serveWorker, SERVICE } from "./worker-server.ts";

/** The id of the order that many clients try to cancel at once. */
const CONTESTED_ID = 1_001;
/** The first id of the orders that are cancelled one by one. */
const FIRST_ID = 10_000;
const ORDERS = 5_000;
const FIRST_IMPORTED_ID = 1_000_000;
const IMPORTED = 20_000;
const CLIENTS = 4;

const store = new StoreFolder();
let server: Server;
let key: string;

beforeAll(async () => {
  const { load } = await createKeys(store, { load: AMPLE });
  key = load.key;
  const orders = orderLines(CONTESTED_ID, 1) + orderLines(FIRST_ID, ORDERS);
  await store.ordersJson(["import", "-"], orders);
  server = await serveWorker(SERVICE, store.path);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  store.remove();
});

function request(path: string, secret: string, init: RequestInit = {}): Promise<Response> {
  const headers = { Authorization: `Bearer ${secret}` };
  return fetch(`${server.url}/v1/store/orders${path}`, { ...init, headers });
}

const list = (secret = key) => request("", secret);
const cancel = (id: number | string) => request(`/${id}`, key, { method: "DELETE" });

describe("a service under load", () => {
  it("loses no request or order while commands import, export and create keys", async () => {
    const cancelled = new Set<number>();
    const load = new Load(CLIENTS, async (turn) => {
      if (turn % 8 === 0) return list();
      const id = FIRST_ID + turn;
      const response = await cancel(id);
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
    expect((await list(created.key)).status).toBe(200);
    expect(load.failures).toEqual([]);
    const { 200: lists, 204: cancellations, 404: missing = 0, ...others } = load.statuses;
    expect({ missing, ...others }).toEqual({ missing });
    expect(lists).toBeGreaterThan(5);
    expect(cancellations).toBe(cancelled.size);
    expect(cancelled.size).toBeGreaterThan(10);
    expect(readFileSync(exportFile, "utf8")).toContain(orderLines(FIRST_IMPORTED_ID, IMPORTED));

    const left: { id: number }[] = JSON.parse(await (await list(created.key)).text());
    const listed = new Set(left.map(({ id }) => id));
    const ids = Array.from({ length: ORDERS }, (_, index) => FIRST_ID + index);
    expect(ids.filter((id) => !listed.has(id))).toEqual(
      [...cancelled].toSorted((one, other) => one - other),
    );
  });

  it("lets exactly one of 50 simultaneous requests cancel an order", async () => {
    const cancels = Array.from({ length: 50 }, () => cancel(CONTESTED_ID));
    const statuses = (await Promise.all(cancels)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([204, ...Array<number>(49).fill(404)]);
  });
});

describe("clients that drop their connections", () =>
  testDroppedConnections(() => ({ url: server.url, key, list, cancel })));
