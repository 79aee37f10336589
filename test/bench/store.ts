import { mkdir } from "node:fs/promises";
import { type CreatedKey, createApiKey } from "../../src/operator/key-store/administration.ts";
import { addKeys } from "../../src/operator/key-store/change-key.ts";
import { openLocalStore } from "../../src/operator/database/local.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { MAX_LIMIT } from "../../src/worker/limit-rules/plans.ts";
import { writeOrderFile } from "./order-file.ts";
import { runCommand } from "./bundle.ts";

export interface Keys {
  readonly unlimited: readonly CreatedKey[];
  /** Keys that admit one request a day. */
  readonly scarce: readonly CreatedKey[];
  readonly free: readonly CreatedKey[];
  readonly revoked: readonly CreatedKey[];
}

export function createKeys(): Keys {
  const make = (count: number, perDay: number | null) =>
    Array.from({ length: count }, () => {
      const limits = perDay === null ? null : { perMinute: perDay, perDay };
      const plan = perDay === null ? "free" : "enterprise";
      return createApiKey({ name: "Benchmark", plan, limits, expiresAt: null }, new Date());
    });
  const revoked = make(1, null).map(({ key, record }) => ({
    key,
    record: { ...record, revokedAt: new Date() },
  }));
  return { unlimited: make(64, MAX_LIMIT), scarce: make(16, 1), free: make(8, null), revoked };
}

/** Creates a store with this number of orders, which `orders import` reads from `orderFile`. */
export async function createStore(
  folder: string,
  orders: number,
  orderFile: string,
  keys: Keys,
): Promise<string> {
  await writeOrderFile(orderFile, orders);
  await mkdir(folder);
  const importOrders = ["orders", "import", orderFile, "--persist-to", folder];
  await runCommand(process.execPath, ["src/operator/main.ts", ...importOrders], PROJECT_ROOT);
  await using store = await openLocalStore(folder);
  await addKeys(
    store.keys,
    Object.values<readonly CreatedKey[]>({ ...keys })
      .flat()
      .map(({ record }) => record),
  );
  return folder;
}
