import { and, eq, lt, lte, or, sql } from "drizzle-orm";
import pRetry from "p-retry";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { exact } from "../../schema/int64.ts";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import { type DatabaseName, databaseTime, type StoreDatabase } from "../database/database.ts";
import { addKeys, changeKey } from "../keys/change-key.ts";
import {
  createVerificationKey,
  deleteVerificationKeys,
  revokeApiKey,
} from "../keys/key-changes.ts";
import { call } from "./answer.ts";
import { PROMISES } from "./promises.ts";
import {
  BrokenPromise,
  NoAnswerError,
  type OwnOrders,
  type PromiseResult,
  SYSTEM_CLOCK,
  type Trial,
  Untried,
  type VerifyOptions,
} from "./service-promise.ts";

/** The number of orders at the beginning of the list that are searched for a shipped one. */
const ORDERS_SEARCHED = 1_000;

/** The fields that tell orders of verifications from others. Doubles would change both integers. */
const FIELDS = { petId: INT64_MAX, quantity: INT64_MIN, complete: false };

/** The largest id of such an order. Small ids are near the beginning of the list. */
const LARGEST_ID = INT64_MIN + 2n ** 32n;

/** By the database's clock, when another verification may remove the order of one that was killed. */
const AN_HOUR_AGO = sql`strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour')`;

export interface Verification {
  /** True if no promise is broken. */
  readonly isKept: boolean;
  readonly promises: readonly PromiseResult[];
}

/**
 * Tries the promises of docs/api.md and docs/limits.md on a running service. Sends no further
 * request to a service that does not answer.
 *
 * @throws {OtherVersionError} if a response does not name the version `options.version`.
 * @throws if the service does not know the key, if `signal` is aborted or `revoke` fails.
 */
export async function verify({
  report = () => {},
  send = fetch,
  clock = SYSTEM_CLOCK,
  signal = new AbortController().signal,
  ...options
}: VerifyOptions): Promise<Verification> {
  const common = { ...options, send, clock, signal, seen: { crowd: [] } };
  const promises: PromiseResult[] = [];
  let isAnswering = true;
  for (const [promise, test] of Object.entries(PROMISES)) {
    signal.throwIfAborted();
    const trial: Trial = { ...common, promise };
    let result: PromiseResult = { promise, result: "kept" };
    try {
      if (!isAnswering) throw new Untried("the service does not answer");
      await (typeof test === "function" ? test(trial) : call(trial, test));
    } catch (error) {
      const { message: reason } = error as Error;
      if (error instanceof Untried) result = { promise, result: "untried", reason };
      else if (error instanceof BrokenPromise) {
        result = { promise, result: "broken", reason, requestId: error.requestId };
      } else throw error;
      if (error instanceof NoAnswerError) isAnswering = false;
    }
    promises.push(result);
    report(result);
  }
  return { isKept: promises.every(({ result }) => result !== "broken"), promises };
}

export interface StoreVerifyOptions extends Omit<VerifyOptions, "key" | "revoke" | "orders"> {
  /** Runs `work` with one of the databases of the service. */
  readonly useDatabase: <T>(
    name: DatabaseName,
    work: (database: StoreDatabase) => Promise<T>,
  ) => Promise<T>;
  /** True places a pending order, and removes it at the end. */
  readonly isWriting?: boolean;
}

/**
 * Verifies a service with a new key on the Free plan. At the end, even after an error, removes the
 * key and the pending order, and those that killed verifications have left.
 *
 * @throws an Error whose message lists all failures, also those of revoking and removing.
 */
export async function verifyStore({
  useDatabase,
  isWriting = false,
  ...options
}: StoreVerifyOptions): Promise<Verification> {
  const now = await useDatabase("keys", ({ orm }) => databaseTime(orm));
  const { key, record } = createVerificationKey(now);
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  const order = { ...FIELDS, id: INT64_MIN + BigInt(random), shipDate: now.toISOString() };
  const verifyWithKey = async (): Promise<Verification> => {
    await useDatabase("keys", (database) => addKeys(database, [record]));
    const own = isWriting
      ? await useDatabase("orders", (database) => placeOwnOrder(database, order))
      : undefined;
    const revoke = async () => {
      await useDatabase("keys", (keys) => changeKey(keys, record.id, "revoke", revokeApiKey));
    };
    return verify({ ...options, key, revoke, orders: own });
  };
  const remove = (
    what: string,
    name: DatabaseName,
    work: (database: StoreDatabase) => Promise<void>,
  ) =>
    // Removing twice does no harm, and the connection may have been lost.
    pRetry(() => useDatabase(name, work), { retries: 2, minTimeout: 100 }).catch((cause: Error) => {
      throw new Error(
        `the ${what} of this verification is not removed; another one removes it an hour later: ${cause.message}`,
        { cause },
      );
    });
  const [verified] = await Promise.allSettled([verifyWithKey()]);
  // Cleans up even after an error: the database may have stored the key or the order nevertheless.
  const cleanedUp = await Promise.allSettled([
    remove(`key ${record.id}`, "keys", (keys) => deleteVerificationKeys(keys, record.id)),
    isWriting && remove(`order ${order.id}`, "orders", (own) => removeOwnOrders(own, order.id)),
  ]);
  const failures = [verified, ...cleanedUp].flatMap((settled) =>
    settled.status === "rejected" ? [settled.reason as Error] : [],
  );
  if (verified.status === "fulfilled" && failures.length === 0) return verified.value;
  throw new Error(failures.map(({ message }) => message).join("\n"), { cause: failures[0] });
}

type OwnOrder = typeof FIELDS & { readonly id: bigint; readonly shipDate: string };

async function placeOwnOrder({ orm }: StoreDatabase, order: OwnOrder): Promise<OwnOrders> {
  await orm.insert(orders).values(order);
  const first = await orm
    .select({ id: exact(orders.id), status: orders.status })
    .from(orders)
    .orderBy(orders.id)
    .limit(ORDERS_SEARCHED);
  const shipped = first.find(({ status }) => status === "shipped");
  const { id, petId, quantity, shipDate, complete } = order;
  const json = `{"id":${id},"petId":${petId},"quantity":${quantity},"shipDate":"${shipDate}","complete":${complete}}`;
  return { pending: { id, json }, shippedId: shipped?.id ?? null };
}

/** Removes an order, cancelled or not, and those of verifications that were killed. */
async function removeOwnOrders(database: StoreDatabase, id: bigint): Promise<void> {
  const deleteFrom = (table: typeof orders | typeof cancelledOrders) => {
    const hasFields = and(eq(table.petId, FIELDS.petId), eq(table.quantity, FIELDS.quantity));
    const isOwn = or(eq(table.id, id), lt(table.shipDate, AN_HOUR_AGO));
    return database.orm.delete(table).where(and(lte(table.id, LARGEST_ID), hasFields, isOwn));
  };
  await database.transaction([deleteFrom(orders), deleteFrom(cancelledOrders)]);
}
