import { mkdir } from "node:fs/promises";
import { type CreatedKey, createApiKey } from "../../src/operator/key-store/administration.ts";
import { addKeys } from "../../src/operator/key-store/change-key.ts";
import { openLocalStore } from "../../src/operator/database/local.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { MAX_LIMIT } from "../../src/rules/limits/plans.ts";
import { writeOrderFile } from "./order-file.ts";
import { runCommand } from "./bundle.ts";

export interface Keys {
  readonly unlimited: readonly CreatedKey[];
  /** Keys that admit one request a day. */
  readonly scarce: readonly CreatedKey[];
}

export function createKeys(): Keys {
  const make = (count: number, perDay: number) =>
    Array.from({ length: count }, () => {
      const limits = { perMinute: perDay, perDay };
      const settings = { name: "Benchmark", plan: "enterprise", limits, expiresAt: null } as const;
      return createApiKey(settings, new Date());
    });
  return { unlimited: make(64, MAX_LIMIT), scarce: make(16, 1) };
}

/** Creates a store with the keys and this number of orders, which it also writes to `orderFile`. */
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
  const records = [...keys.unlimited, ...keys.scarce].map(({ record }) => record);
  await addKeys(store.keys, records);
  return folder;
}
