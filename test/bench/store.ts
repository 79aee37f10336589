import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { generateSecret, generateKeyId } from "../../src/operator/key-store/secret.ts";
import { hashSecret } from "../../src/worker/api-keys/secret.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { MAX_LIMIT } from "../../src/worker/limit-rules/plans.ts";
import { hasSingleDatabase } from "../../src/operator/database/local-store.ts";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { executeSql } from "./miniflare.ts";
import { writeOrderFile } from "./order-file.ts";
import { runCommand } from "./run-command.ts";

/** A local store, filled by the command `orders import`. */
export interface Store {
  readonly folder: string;
  readonly orders: number;
  /** The path of the file from which the orders were imported. */
  readonly orderFile: string;
  /** An API key with limits that the benchmark never exceeds. */
  readonly key: string;
  /** API keys with limits that the benchmark never exceeds; the first one is `key`. */
  readonly keys: readonly string[];
  /** API keys that admit one request a day. */
  readonly scarceKeys: readonly string[];
  /** API keys of the Free plan. */
  readonly freeKeys: readonly string[];
  readonly revokedKey: string;
}

const KEYS = 64;
const SCARCE_KEYS = 16;
const FREE_KEYS = 8;

/**
 * Creates a store with orders and keys in a subfolder of `folder`.
 *
 * @param orders the number of orders.
 * @param root the checkout whose `orders import` fills the store; this checkout by default.
 */
export async function createStore(
  folder: string,
  orders: number,
  root = PROJECT_ROOT,
): Promise<Store> {
  const store = join(folder, `store-${orders}`);
  await mkdir(store);
  const orderFile = join(folder, `orders-${orders}.ndjson`);
  await writeOrderFile(orderFile, orders);
  // Runs the npm script `orders`, because the baseline commit has the same script but another entry
  // file.
  const importOrders = ["run", "orders", "--", "import", orderFile, "--persist-to", store];
  await runCommand("npm", importOrders, root);
  if (!hasSingleDatabase(store)) await (await openLocalDatabase(store, "keys")).close();
  const keys = {
    keys: someKeys(KEYS),
    scarceKeys: someKeys(SCARCE_KEYS),
    freeKeys: someKeys(FREE_KEYS),
  };
  const revokedKey = generateSecret();
  await executeSql(store, "keys", [
    ...keys.keys.map((key) => enterpriseKeySql(key, MAX_LIMIT)),
    ...keys.scarceKeys.map((key) => enterpriseKeySql(key, 1)),
    ...keys.freeKeys.map((key) => keySql(key, "'free', NULL, NULL, NULL")),
    keySql(revokedKey, "'free', NULL, NULL, 1"),
  ]);
  return { folder: store, orders, orderFile, key: keys.keys[0] ?? "", ...keys, revokedKey };
}

/**
 * Copies a store, because two processes that use one store would wait for each other's locks.
 *
 * @param name the name of the copy, unique among the copies of the store.
 * @returns the path of the copy.
 */
export async function copyStore({ folder }: Store, name: string): Promise<string> {
  const copy = `${folder}-${name}`;
  await cp(folder, copy, { recursive: true, force: false, errorOnExist: true });
  return copy;
}

function someKeys(count: number): string[] {
  return Array.from({ length: count }, generateSecret);
}

function enterpriseKeySql(key: string, limit: number): string {
  return keySql(key, `'enterprise', ${limit}, ${limit}, NULL`);
}

/**
 * Returns SQL that stores a key. Uses SQL instead of the service's code, because stores of the
 * baseline commit have the same table of keys but other code.
 */
function keySql(key: string, values: string): string {
  const columns = "id, hash, name, plan, per_minute, per_day, revoked_at, created_at";
  const names = `'${generateKeyId()}', '${hashSecret(key)}', 'Benchmark'`;
  return `INSERT INTO api_keys (${columns}) VALUES (${names}, ${values}, 0)`;
}
