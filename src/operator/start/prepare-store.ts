import { openLocalStore } from "../database/local.ts";
import { currentActor } from "../key-store/actor.ts";
import { type DemoKey, loadSampleStore } from "./sample-store.ts";

/** Migrates the store. Fills a new store with sample data and returns its demo keys. */
export async function prepareStore(store: string, empty: boolean): Promise<DemoKey[]> {
  await using databases = await openLocalStore(store);
  const isNew = databases.orders.isNew && databases.keys.isNew;
  return isNew && !empty ? await loadSampleStore(databases, currentActor(), new Date()) : [];
}
