import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { QUIET_WRANGLER, WRANGLER_BIN } from "../../src/operator/wrangler.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { registryOf, Service } from "./service.ts";

const SHOP = join(import.meta.dirname, "../../examples/shop");

const store = new StoreFolder();
const shopFolder = new StoreFolder();
let service: Service;
let shop: Service;

beforeAll(async () => {
  service = await Service.start(store.path, { args: ["--empty"] });
  // Starts the example as a shop's developer does.
  shop = await Service.launch(shopFolder.path, {
    root: SHOP,
    command: [process.execPath, WRANGLER_BIN, "dev"],
    args: ["--inspector-port", "0"],
    env: {
      ...QUIET_WRANGLER,
      WRANGLER_REGISTRY_PATH: registryOf(store.path),
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
    },
  });
  await shop.until(() => shop.stdout.includes("Ready on"));
});
afterAll(async () => {
  await shop.end("SIGKILL");
  await service.end("SIGKILL");
});

const inShop = (path: string, init?: RequestInit) =>
  fetch(`http://127.0.0.1:${shop.port}${path}`, init);

async function post(path: string, sent: unknown): Promise<readonly [number, any]> {
  const headers = { Authorization: "Bearer only-for-development" };
  const response = await inShop(path, { method: "POST", headers, body: JSON.stringify(sent) });
  return [response.status, await response.json()];
}

/** Runs the shop's cron. Returns the orders to refund. */
async function runCron(): Promise<unknown[]> {
  expect((await inShop("/cdn-cgi/local/scheduled")).status).toBe(200);
  const files = globSync(`${shopFolder.path}/v3/d1/*/*.sqlite`);
  const file = files.find((name) => !name.includes("metadata"));
  using sqlite = new DatabaseSync(file!);
  return sqlite.prepare("SELECT order_id FROM refunds").all().map(Object.values).flat();
}

test("the example of a shop places, ships, hears of cancellations once and hands out keys, beside npm start", async () => {
  const lines = readFileSync(join(SHOP, "shop.ts"), "utf8").split("\n");
  expect(lines.length).toBeLessThanOrEqual(80);
  const [created, { key }] = await post("/sign-up", { name: "Pet shop" });
  expect(created).toBe(201);
  for (const orderId of ["9007199254740993", "7", "8"]) {
    const placed = await post("/orders", { orderId, petId: "5", quantity: 2 });
    expect(placed).toEqual([201, { ok: true, new: 1, replaced: 0, shipped: 0, unchanged: 0 }]);
  }
  const shipped = { 7: "shipped", 99: "not_found" };
  expect(await post("/shipments", { orderIds: ["7", "99"] })).toEqual([200, shipped]);
  const list = await (await service.request(key)).text();
  expect(list).toContain('{"id":9007199254740993,"petId":5,"quantity":2}');
  const cancel = async (id: string) => (await service.request(key, `/${id}`, "DELETE")).status;
  expect(await cancel("7")).toBe(409);
  expect(await cancel("9007199254740993")).toBe(204);
  expect(await runCron()).toEqual(["9007199254740993"]);
  expect(await cancel("8")).toBe(204);
  expect(await runCron()).toEqual(["9007199254740993", "8"]);
  expect(await runCron()).toEqual(["9007199254740993", "8"]);
  expect(await post("/sign-up", { name: "" })).toMatchObject([400, { code: "invalid_input" }]);
  const [{ actor }] = await store.keysJson("audit");
  expect(actor).toBe("sign-up");
  expect((await inShop("/orders", { method: "POST" })).status).toBe(401);
});
