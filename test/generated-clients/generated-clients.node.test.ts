import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import type { Server } from "../bench/server.ts";
import { AMPLE, createKeys, type NewKey } from "../process/create-keys.ts";
import { serveWorker } from "../process/worker-server.ts";
import { compileClients, documentedGenerators } from "./documented-clients.ts";

const generators = documentedGenerators();

/** One id for each generator. `JSON.parse` rounds `id` and `id + 1` to the same number. */
const FIRST_IDS = generators.map((_, index) => 2n ** 53n + 4n * BigInt(index));
const ROUNDED_IDS = FIRST_IDS.flatMap((id) => [id, id + 1n]);
const SHIPPED_ID = 1004n;
const FAILURES = {
  internal_error: "no such table: orders: SQLITE_ERROR",
  service_unavailable: "D1_ERROR: Network connection lost.",
};

const store = new StoreFolder();
let server: Server;
let keys: Record<string, NewKey>;

beforeAll(async () => {
  const hasty = { perMinute: 1, perDay: 1_000 };
  const limits = generators.map(({ name }) => [name, hasty] as const);
  keys = await createKeys(store, { ample: AMPLE, ...Object.fromEntries(limits) });
  const lines = ROUNDED_IDS.map((id) => `{"id":${id}}`);
  const shipped = `{"id":${SHIPPED_ID},"status":"shipped"}`;
  await store.ordersJson(["import", "-"], [...lines, shipped].join("\n"));
  [server] = await Promise.all([
    serveWorker("test/generated-clients/failing-service.ts", store.path),
    ...generators.map((generator) => generator.generate()),
  ]);
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  store.remove();
});

const base = () => `${server.url}/v1`;
const secretOf = (name: string) => keys[name]?.key ?? "";
const control = (path: string) => fetch(`${server.url}${path}`);

async function storedIds(): Promise<string[]> {
  const headers = { Authorization: `Bearer ${secretOf("ample")}` };
  const response = await fetch(`${base()}/store/orders`, { headers });
  return [...(await response.text()).matchAll(/"id":(-?\d+)/g)].map(([, id]) => id ?? "");
}

test("docs/api.md describes three generators", () => {
  expect(generators.map(({ name }) => name)).toEqual([
    "openapi-typescript with openapi-fetch",
    "hey-api",
    "orval",
  ]);
});

test("every client compiles under --strict", async () => {
  expect(await compileClients()).toBe("");
});

describe.each(generators.map((generator, index) => ({ generator, firstId: FIRST_IDS[index]! })))(
  "a client made by $generator.name",
  ({ generator, firstId }) => {
    const load = (name = "ample", address = base()) => generator.load(address, secretOf(name));
    const { name } = generator;

    test("lists ids with every digit, and cancels exactly the given order", async () => {
      const { listOrders, cancelOrder } = await load();
      const ids = (await listOrders()).map(({ id }) => id);
      expect(ids).toEqual(expect.arrayContaining([SHIPPED_ID, firstId, firstId + 1n]));
      await cancelOrder(ids.find((id) => id === firstId + 1n)!);
      const left = await storedIds();
      expect(left).toContain(String(firstId));
      expect(left).not.toContain(String(firstId + 1n));
    });

    test("throws each error with its code", async () => {
      const { listOrders, cancelOrder } = await load();
      await expect(cancelOrder(firstId + 1n)).rejects.toThrow(/^order_not_found: /);
      await expect(cancelOrder(SHIPPED_ID)).rejects.toThrow(/^order_already_shipped: /);

      const stranger = await load("nobody");
      await expect(stranger.listOrders()).rejects.toThrow(/^unauthorized: /);
      await expect(stranger.cancelOrder(1n)).rejects.toThrow(/^unauthorized: /);

      const elsewhere = await load("ample", `${base()}/nothing`);
      await expect(elsewhere.listOrders()).rejects.toThrow(/^not_found: /);
      const list = await load("ample", `${base()}/store/orders?`);
      await expect(list.cancelOrder(1n)).rejects.toThrow(/^method_not_allowed: /);

      for (const [code, message] of Object.entries(FAILURES)) {
        await control(`/fail?message=${encodeURIComponent(message)}`);
        await expect(cancelOrder(firstId)).rejects.toThrow(new RegExp(`^${code}: `));
      }
      await control("/fail");
      await expect(listOrders()).resolves.not.toHaveLength(0);
    });

    test("throws errors for an exceeded limit and for a ban", async () => {
      const hasty = await load(name);
      await hasty.listOrders();
      await expect(hasty.listOrders()).rejects.toThrow(/^rate_limit_exceeded: /);
      await expect(hasty.cancelOrder(1n)).rejects.toThrow(/^rate_limit_exceeded: /);
      await control(`/clock?ms=${20_000}`);
      for (let strike = 1; strike <= 60; strike++) {
        await hasty.cancelOrder(1n).catch(() => undefined);
      }
      await expect(hasty.listOrders()).rejects.toThrow(/^api_key_banned: /);
      await expect(hasty.cancelOrder(1n)).rejects.toThrow(/^api_key_banned: /);
    });
  },
);
