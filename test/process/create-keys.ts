import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { createApiKey } from "../../src/operator/key-store/administration.ts";
import { addKeys } from "../../src/operator/key-store/change-key.ts";
import type { Limits, Plan } from "../../src/worker/limit-rules/plans.ts";
import type { StoreFolder } from "../operator/store-folder.ts";

export interface NewKey {
  readonly id: string;
  readonly key: string;
}

/** Rate limits that no test reaches. */
export const AMPLE: Limits = { perMinute: 1_000_000, perDay: 1_000_000 };

/** Creates keys of these names with a plan or their own limits, faster than a command for each. */
export async function createKeys<Name extends string>(
  store: StoreFolder,
  plans: Readonly<Record<Name, Exclude<Plan, "enterprise"> | Limits>>,
): Promise<Record<Name, NewKey>> {
  await store.make();
  const database = await openLocalDatabase(store.path, "keys");
  try {
    const now = new Date();
    const created = Object.entries<Plan | Limits>(plans).map(([name, plan]) =>
      typeof plan === "string"
        ? createApiKey({ name, plan, limits: null, expiresAt: null }, now)
        : createApiKey({ name, plan: "enterprise", limits: plan, expiresAt: null }, now),
    );
    await addKeys(
      database,
      created.map(({ record }) => record),
    );
    return Object.fromEntries(
      created.map(({ key, record }) => [record.name, { id: record.id, key }]),
    ) as Record<Name, NewKey>;
  } finally {
    await database.close();
  }
}
