import { sql } from "drizzle-orm";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { createApiKey } from "../../src/store/keys/key-settings.ts";
import { addKeys } from "../../src/store/keys/change-key.ts";
import type { Limits, Plan } from "../../src/rules/limits/plans.ts";

/** Rate limits that no test reaches. */
export const AMPLE: Limits = { perMinute: 1_000_000, perDay: 1_000_000 };

export type KeyLimits = Exclude<Plan, "enterprise"> | Limits;

/** Creates a key with a plan or limits for each name. The command `keys create` would be slower. */
export async function createKeys<Name extends string>(
  folder: string,
  plans: Readonly<Record<Name, KeyLimits>>,
): Promise<Record<Name, string>> {
  const created = Object.entries<KeyLimits>(plans).map(([name, own]) => {
    const [plan, limits] = typeof own === "string" ? [own, null] : ["enterprise" as const, own];
    return createApiKey({ name, plan, limits, expiresAt: null }, new Date());
  });
  using _orders = await openLocalDatabase(folder, "orders");
  using keys = await openLocalDatabase(folder, "keys");
  const records = created.map(({ record }) => record);
  await addKeys(keys, records, "test");
  const secrets = created.map(({ key, record }) => [record.name, key]);
  return Object.fromEntries(secrets) as Record<Name, string>;
}

/** Places orders with the ids 1 to `count` and long integers. An import would take a second. */
export async function placeLongOrders(folder: string, count: number): Promise<void> {
  using orders = await openLocalDatabase(folder, "orders");
  await orders.orm.run(sql`
    WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ${count})
    INSERT INTO orders (id, pet_id, quantity, ship_date)
    SELECT id, 1 << 63, 1 << 63, '2026-11-20T08:30:00.000Z' FROM n`);
}
