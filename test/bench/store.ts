import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { createApiKey } from "../../src/api-keys/administration.ts";
import { openLocalDatabase } from "../../src/cli/database/local.ts";
import { addKeys } from "../../src/cli/keys/change-key.ts";
import { PROJECT_ROOT } from "../../src/cli/wrangler.ts";
import { MAX_LIMIT } from "../../src/rate-limit/plans.ts";
import { writeOrderFile } from "./order-file.ts";

/** A local store, filled by the service's own commands. */
export interface Store {
  readonly folder: string;
  readonly orders: number;
  /** What was imported into it. */
  readonly orderFile: string;
  /** An API key that is never refused. */
  readonly key: string;
  /** API keys with one request a day. */
  readonly scarceKeys: readonly string[];
}

const SCARCE_KEYS = 8;

/** Makes a store of that many orders below `folder`. */
export async function createStore(folder: string, orders: number): Promise<Store> {
  const store = join(folder, `store-${orders}`);
  await mkdir(store);
  const orderFile = join(folder, `orders-${orders}.ndjson`);
  await writeOrderFile(orderFile, orders);
  await importOrders(orderFile, store);
  const unlimited = enterpriseKey(MAX_LIMIT);
  const scarce = Array.from({ length: SCARCE_KEYS }, () => enterpriseKey(1));
  const database = await openLocalDatabase(store);
  await addKeys(
    database,
    [unlimited, ...scarce].map(({ record }) => record),
  );
  await database.close();
  const scarceKeys = scarce.map(({ key }) => key);
  return { folder: store, orders, orderFile, key: unlimited.key, scarceKeys };
}

/** A copy of a store for a Worker of its own: two processes on one store would wait for each other. */
export async function copyStore({ folder }: Store, name: string): Promise<string> {
  const copy = `${folder}-${name}`;
  await cp(folder, copy, { recursive: true });
  return copy;
}

function enterpriseKey(limit: number): ReturnType<typeof createApiKey> {
  const limits = { perMinute: limit, perDay: limit };
  return createApiKey(
    { name: "Benchmark", plan: "enterprise", limits, expiresAt: null },
    new Date(),
  );
}

async function importOrders(file: string, store: string): Promise<void> {
  const args = ["src/cli/orders.ts", "import", file, "--persist-to", store, "--json"];
  const child = spawn(process.execPath, args, {
    cwd: PROJECT_ROOT,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const [errors, [status]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  if (status !== 0) throw new Error(`The import failed: ${errors}`);
}
