import { createApiKey } from "../../../api-keys/administration.ts";
import { creationQueries } from "../../../api-keys/key-changes.ts";
import { orders } from "../../../db/schema.ts";
import { PLAN_LIMITS } from "../../../rate-limit/plans.ts";
import { dayOf } from "../../../usage/day-usage.ts";
import { reportUsage } from "../../../usage/usage-table.ts";
import { toStatements } from "../../database/database.ts";
import { type ListFigures, measureList } from "./measure-list.ts";
import { SampleDatabase } from "./sample-database.ts";

const ORDERS = 20_000;
const ORDERS_AT_ONCE = 100;
const KEYS = 500;
const REPORTS = 2_000;
/** Ids as long as those of a store that has taken many orders. */
const FIRST_ID = 100_000_000;
const EVERY_MS = 12_345;

/** What the estimate stands on that this machine can tell. */
export interface Measured extends ListFigures {
  /** Bytes in D1 of an order. */
  readonly orderBytes: number;
  /** Of a key, with the record of its creation. */
  readonly keyBytes: number;
  /** Of what a key used on one day. */
  readonly usageBytes: number;
}

/**
 * Fills a database with orders, keys and reports of usage, by the service's own statements, and
 * looks at what they take.
 */
export async function measure(now: Date): Promise<Measured> {
  const database = new SampleDatabase();
  try {
    const orderBytes = await bytesEach(database, ORDERS, () => placeOrders(database, now));
    const keyBytes = await bytesEach(database, KEYS, () => createKeys(database, now));
    const usageBytes = await bytesEach(database, REPORTS, () => reportDays(database, now));
    return { orderBytes, keyBytes, usageBytes, ...(await measureList(database)) };
  } finally {
    database.close();
  }
}

async function bytesEach(
  database: SampleDatabase,
  count: number,
  fill: () => Promise<void> | void,
): Promise<number> {
  const before = database.bytes;
  await fill();
  return (database.bytes - before) / count;
}

function placeOrders(database: SampleDatabase, now: Date): void {
  for (let first = 0; first < ORDERS; first += ORDERS_AT_ONCE) {
    const values = Array.from({ length: ORDERS_AT_ONCE }, (_, offset) => {
      const index = first + offset;
      return {
        id: BigInt(FIRST_ID + index),
        petId: BigInt(index % 5_000),
        quantity: BigInt(index % 9),
        shipDate: new Date(now.getTime() + index * EVERY_MS).toISOString(),
        complete: index % 3 === 0,
      };
    });
    database.transaction(toStatements([database.orm.insert(orders).values(values)]));
  }
}

function createKeys(database: SampleDatabase, now: Date): void {
  for (let index = 0; index < KEYS; index += 1) {
    const settings = {
      plan: "free",
      name: `Customer ${index}`,
      limits: null,
      expiresAt: null,
    } as const;
    const { record } = createApiKey(settings, now);
    database.transaction(toStatements(creationQueries(database.orm, record, "operator")));
  }
}

async function reportDays(database: SampleDatabase, now: Date): Promise<void> {
  for (let index = 0; index < REPORTS; index += 1) {
    const usage = {
      day: dayOf(now.getTime()),
      admitted: index,
      refused: index % 100,
      strikes: index % 10,
      bans: 0,
      peakMinute: index % 60,
      peakDay: index % 1_000,
      limits: PLAN_LIMITS.free,
    };
    // Ids are random, as those of keys are.
    const { record } = createApiKey({ plan: "free", name: "", limits: null, expiresAt: null }, now);
    await reportUsage(database.orm, record.id, [usage], now);
  }
}
