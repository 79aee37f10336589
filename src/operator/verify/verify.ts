import { and, eq } from "drizzle-orm";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import { exact } from "../../schema/int64.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import type { DatabaseName, StoreDatabase } from "../database/database.ts";
import { createVerificationKey, revokeApiKey } from "../keys/key-changes.ts";
import { addKeys, changeKey } from "../keys/change-key.ts";
import { deleteVerificationKeys, findApiKey } from "../keys/stored-keys.ts";
import { PROMISES } from "./promises.ts";
import {
  BrokenPromise,
  NoAnswerError,
  OBSTACLES,
  type OwnOrders,
  type PromiseResult,
  SYSTEM_CLOCK,
  type Trial,
  Untried,
  type VerifyOptions,
} from "./service-promise.ts";

/** The number of orders at the beginning of the list that are searched for a shipped one. */
const ORDERS_SEARCHED = 1_000;

/** The fields of the pending order. A service that uses doubles would change both integers. */
const FIELDS = {
  petId: INT64_MAX,
  quantity: INT64_MIN,
  shipDate: "2026-11-20T08:30:00.125Z",
  complete: false,
};

export interface Verification {
  /** True if no promise is broken. */
  readonly isKept: boolean;
  readonly promises: readonly PromiseResult[];
}

/**
 * Tries the promises of docs/api.md and docs/limits.md on a running service. If the service does not
 * answer, sends no further request, and reports no further result.
 *
 * @throws {OtherVersionError} if a response does not name the version `options.version`.
 * @throws if `signal` is aborted or `revoke` fails.
 */
export async function verify({
  report = () => {},
  headers = {},
  send = fetch,
  clock = SYSTEM_CLOCK,
  signal = new AbortController().signal,
  ...options
}: VerifyOptions): Promise<Verification> {
  const trial: Trial = { ...options, headers, send, clock, signal, seen: { crowd: [] } };
  const promises: PromiseResult[] = [];
  let isAnswering = true;
  for (const { title: promise, needs, test } of PROMISES) {
    signal.throwIfAborted();
    if (!isAnswering) {
      promises.push({ promise, result: "untried", reason: "the service does not answer" });
      continue;
    }
    let result: PromiseResult = { promise, result: "kept" };
    try {
      const obstacle = needs.map((need) => OBSTACLES[need](trial)).find(Boolean);
      if (obstacle) throw new Untried(obstacle);
      await test(trial);
    } catch (error) {
      const { message: reason } = error as Error;
      if (error instanceof Untried) result = { promise, result: "untried", reason };
      else if (error instanceof BrokenPromise) {
        result = { promise, result: "broken", reason, requestId: error.requestId };
      } else throw error;
      isAnswering = !(error instanceof NoAnswerError);
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
 * key and the pending order.
 *
 * @throws an Error whose message lists all failures, also those of revoking and removing.
 */
export async function verifyStore({
  useDatabase,
  isWriting = false,
  ...options
}: StoreVerifyOptions): Promise<Verification> {
  const { key, record } = createVerificationKey(new Date((options.clock ?? SYSTEM_CLOCK).now()));
  const orderId = randomOrderId();
  const remains = failWith(
    `the key ${record.id} of this verification is not removed and ends by itself within ten minutes`,
  );
  const revoke = (): Promise<void> =>
    useDatabase("keys", async (database) => {
      if ((await findApiKey(database.orm, record.id)) === undefined) return;
      await changeKey(database, record.id, "revoke", revokeApiKey);
    }).catch(remains);
  const removeKey = () =>
    useDatabase("keys", (database) => deleteVerificationKeys(database, record.id)).catch(remains);
  const removeOrder = () =>
    useDatabase("orders", (database) => removeOwnOrder(database, orderId)).catch(
      failWith(`the order ${orderId} of this verification may still be in the store; cancel it`),
    );
  const verifyWithKey = async (): Promise<Verification> => {
    await useDatabase("keys", (database) => addKeys(database, [record]));
    const ownOrders = isWriting
      ? await useDatabase("orders", (database) => placeOwnOrders(database, orderId))
      : undefined;
    return verify({ ...options, key, revoke, orders: ownOrders });
  };
  const [verified] = await Promise.allSettled([verifyWithKey()]);
  // Cleans up even after an error: the database may have stored the key or the order nevertheless.
  const cleanedUp = await Promise.allSettled([removeKey(), isWriting ? removeOrder() : undefined]);
  const failures = [verified, ...cleanedUp].flatMap((settled) =>
    settled.status === "rejected" ? [settled.reason as Error] : [],
  );
  if (verified.status === "fulfilled" && failures.length === 0) return verified.value;
  const [cause] = failures;
  // If the verification and the clean-up failed for the same reason, the message states it once.
  throw new Error([...new Set(failures.map(({ message }) => message))].join("\n"), { cause });
}

function failWith(remains: string): (error: Error) => never {
  return (cause) => {
    throw new Error(`${remains}: ${cause.message}`, { cause });
  };
}

/**
 * Returns a random id near the smallest int64, so that the order is near the beginning of the list.
 * A service that uses doubles would change almost all of these ids.
 */
function randomOrderId(): bigint {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1));
  return INT64_MIN + BigInt.asUintN(61, random);
}

async function placeOwnOrders(database: StoreDatabase, id: bigint): Promise<OwnOrders> {
  await database.orm.insert(orders).values({ ...FIELDS, id });
  const searched = database.orm
    .select({ id: exact(orders.id).as("id"), status: orders.status })
    .from(orders)
    .orderBy(orders.id)
    .limit(ORDERS_SEARCHED)
    .as("searched");
  const [shipped] = await database.orm
    .select({ id: searched.id })
    .from(searched)
    .where(eq(searched.status, "shipped"))
    .limit(1);
  const { petId, quantity, shipDate, complete } = FIELDS;
  const json = `{"id":${id},"petId":${petId},"quantity":${quantity},"shipDate":"${shipDate}","complete":${complete}}`;
  return { pending: { id, json }, shippedId: shipped === undefined ? null : BigInt(shipped.id) };
}

/** Removes the pending order, cancelled or not, and the record of its cancellation. */
async function removeOwnOrder(database: StoreDatabase, id: bigint): Promise<void> {
  const { orm } = database;
  await database.transaction([
    orm.delete(orders).where(and(eq(orders.id, id), eq(orders.petId, FIELDS.petId))),
    orm.delete(cancelledOrders).where(eq(cancelledOrders.id, id)),
  ]);
}
