import { createApiKey } from "../../../src/operator/key-store/administration.ts";
import { openLocalStore } from "../../../src/operator/database/local.ts";
import { addKeys } from "../../../src/operator/key-store/change-key.ts";

/**
 * Makes a local store with the orders 1 to 20 and one key for each name.
 *
 * @param perMinute the limit of each key.
 * @returns the keys by name.
 */
export async function createStore<Name extends string>(
  folder: string,
  perMinute: Readonly<Record<Name, number>>,
): Promise<Record<Name, string>> {
  await using store = await openLocalStore(folder);
  const created = Object.entries<number>(perMinute).map(([name, limit]) => {
    const limits = { perMinute: limit, perDay: 100_000 };
    return createApiKey({ name, plan: "enterprise", limits, expiresAt: null }, new Date());
  });
  await addKeys(
    store.keys,
    created.map(({ record }) => record),
  );
  const orders = Array.from({ length: 20 }, (_, index) => `(${index + 1})`).join();
  await store.orders.transaction([{ sql: `INSERT INTO orders (id) VALUES ${orders}`, params: [] }]);
  const keys = created.map(({ key, record }) => [record.name, key]);
  return Object.fromEntries(keys) as Record<Name, string>;
}
