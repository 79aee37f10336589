import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { createApiKey } from "../../src/store/keys/key-settings.ts";
import { addKeys } from "../../src/store/keys/change-key.ts";
import type { Limits, Plan } from "../../src/rules/limits/plans.ts";

/** Rate limits that no test reaches. */
export const AMPLE: Limits = { perMinute: 1_000_000, perDay: 1_000_000 };

/** Creates a key with a plan or limits for each name. The command `keys create` would be slower. */
export async function createKeys<Name extends string>(
  folder: string,
  plans: Readonly<Record<Name, Exclude<Plan, "enterprise"> | Limits>>,
): Promise<Record<Name, string>> {
  const created = Object.entries<Plan | Limits>(plans).map(([name, own]) => {
    const [plan, limits] = typeof own === "string" ? [own, null] : ["enterprise" as const, own];
    return createApiKey({ name, plan, limits, expiresAt: null }, new Date());
  });
  using _orders = await openLocalDatabase(folder, "orders");
  using keys = await openLocalDatabase(folder, "keys");
  const records = created.map(({ record }) => record);
  await addKeys(keys, records, "test");
  const secrets = created.map(({ key, record }) => [record.name, key] as const);
  return Object.fromEntries(secrets) as Record<Name, string>;
}
