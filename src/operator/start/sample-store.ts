import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inArray } from "drizzle-orm";
import { apiKeys } from "../../schema/keys.ts";
import { orders as orderTable } from "../../schema/orders.ts";
import { openLocalDatabase } from "../database/local.ts";
import { isStore, makeOwnFolder } from "../database/local-store.ts";
import { addKeys } from "../../store/keys/change-key.ts";
import { currentActor } from "../keys/actor.ts";
import { createApiKey, type CreatedKey } from "../../store/keys/key-settings.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { PLANS } from "../../rules/limits/plans.ts";

const ENTERPRISE_LIMITS = { perMinute: 5_000, perDay: 500_000 };

const SAMPLE_ORDERS: (typeof orderTable.$inferInsert)[] = [
  order(1001n, 501n, 1n, "2026-12-01T09:00:00.000Z"),
  order(1002n, 502n, 2n, "2026-12-01T13:30:00.000Z"),
  order(1003n, 501n, 12n, "2026-12-02T08:15:00.000Z"),
  { ...order(1004n, 503n, 1n, "2026-11-18T10:00:00.000Z"), complete: true, status: "shipped" },
  order(1005n, 504n, 4n, "2026-12-03T16:45:00.000Z"),
  order(1006n, 505n, 1n, "2026-12-04T11:20:30.250Z"),
  { id: 1007n, petId: 506n },
  { id: 1008n },
  order(INT64_MIN, INT64_MIN, 0n, "2026-12-31T23:59:59.999Z"),
  order(INT64_MAX, INT64_MAX, INT64_MAX, "2027-01-01T00:00:00.000Z"),
];

/**
 * Migrates the store. Unless `empty`, adds sample orders and demo keys to a new store. After a start
 * that was interrupted before `show` returned, keeps the orders and replaces the demo keys.
 */
export async function prepareStore(
  store: string,
  empty: boolean,
  show: (keys: readonly CreatedKey[]) => void = () => {},
): Promise<CreatedKey[]> {
  const unfinished = join(makeOwnFolder(store), "unfinished");
  if (!isStore(store)) await writeFile(unfinished, "");
  using orders = await openLocalDatabase(store, "orders");
  using keys = await openLocalDatabase(store, "keys");
  const created: CreatedKey[] = [];
  if (!empty && existsSync(unfinished)) {
    if ((await orders.orm.$count(orderTable)) === 0) {
      await orders.orm.insert(orderTable).values(SAMPLE_ORDERS);
    }
    // The file keeps the ids of demo keys until they are shown. Nobody has seen those that it names.
    const unseen = (await readFile(unfinished, "utf8")).split("\n");
    await keys.orm.delete(apiKeys).where(inArray(apiKeys.id, unseen));
    for (const plan of PLANS) {
      const limits = plan === "enterprise" ? ENTERPRISE_LIMITS : null;
      created.push(createApiKey({ name: `Demo ${plan}`, plan, limits }, new Date()));
    }
    const records = created.map(({ record }) => record);
    await writeFile(unfinished, records.map(({ id }) => id).join("\n"));
    await addKeys(keys, records, currentActor());
    show(created);
  }
  await rm(unfinished, { force: true });
  return created;
}

function order(id: bigint, petId: bigint, quantity: bigint, shipDate: string) {
  return { id, petId, quantity, shipDate, complete: false };
}
