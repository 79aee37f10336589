import { and, eq, lt, lte, or } from "drizzle-orm";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { exact } from "../../schema/int64.ts";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import type { DatabaseName, StoreDatabase } from "../database/database.ts";
import {
  createVerificationKey,
  deleteVerificationKeys,
  revokeApiKey,
} from "../keys/key-changes.ts";
import { addKeys, changeKey } from "../keys/change-key.ts";
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

/** The fields that tell orders of verifications from others. Doubles would change both integers. */
const FIELDS = { petId: INT64_MAX, quantity: INT64_MIN, complete: false };

/** The largest id of such an order. Small ids are near the beginning of the list. */
const LARGEST_ID = INT64_MIN + 2n ** 32n;

/** The time after which another verification removes the order of one that was killed. */
const ORDER_LIFE_MS = 3_600_000;

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
    let result: PromiseResult = { promise, result: "kept" };
    try {
      const obstacle = needs.map((need) => OBSTACLES[need](trial)).find(Boolean);
      if (!isAnswering) throw new Untried("the service does not answer");
      if (obstacle) throw new Untried(obstacle);
      await test(trial);
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
  const now = new Date((options.clock ?? SYSTEM_CLOCK).now());
  const { key, record } = createVerificationKey(now);
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  const order = { ...FIELDS, id: INT64_MIN + BigInt(random), shipDate: now.toISOString() };
  const verifyWithKey = async (): Promise<Verification> => {
    await useDatabase("keys", (database) => addKeys(database, [record]));
    return verify({
      ...options,
      key,
      revoke: () =>
        useDatabase("keys", async (database) => {
          await changeKey(database, record.id, "revoke", revokeApiKey);
        }),
      orders: isWriting
        ? await useDatabase("orders", (database) => placeOwnOrder(database, order))
        : undefined,
    });
  };
  const remove = async (name: DatabaseName, work: (database: StoreDatabase) => Promise<void>) =>
    useDatabase(name, work).catch((cause: Error) => {
      const what = name === "keys" ? `key ${record.id}` : `order ${order.id}`;
      throw new Error(
        `the ${what} of this verification is not removed; another one removes it an hour later: ${cause.message}`,
        { cause },
      );
    });
  const [verified] = await Promise.allSettled([verifyWithKey()]);
  // Cleans up even after an error: the database may have stored the key or the order nevertheless.
  const cleanedUp = await Promise.allSettled([
    remove("keys", (database) => deleteVerificationKeys(database, record.id)),
    isWriting ? remove("orders", (database) => removeOwnOrders(database, order)) : undefined,
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
async function removeOwnOrders(
  database: StoreDatabase,
  { id, petId, quantity, shipDate }: OwnOrder,
): Promise<void> {
  const ended = new Date(Date.parse(shipDate) - ORDER_LIFE_MS).toISOString();
  const deleteFrom = (table: typeof orders | typeof cancelledOrders) => {
    const isOwn = or(eq(table.id, id), lt(table.shipDate, ended));
    const hasFields = and(eq(table.petId, petId), eq(table.quantity, quantity));
    return database.orm.delete(table).where(and(lte(table.id, LARGEST_ID), hasFields, isOwn));
  };
  await database.transaction([deleteFrom(orders), deleteFrom(cancelledOrders)]);
}
