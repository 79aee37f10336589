import { and, eq, lt, lte, or, sql } from "drizzle-orm";
import { stringify } from "lossless-json";
import { retry } from "../retry.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { exact } from "../../schema/int64.ts";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import { withoutSecrets } from "../command-line.ts";
import { formatTime } from "../terminal-text.ts";
import { databaseTime, type StoreDatabase } from "../../store/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { currentActor } from "../keys/actor.ts";
import { addKeys, changeKey } from "../../store/keys/change-key.ts";
import {
  createVerificationKey,
  deleteVerificationKeys,
} from "../../store/keys/verification-key.ts";
import { revokeApiKey } from "../../store/keys/key-settings.ts";
import { BrokenPromise, call, type Service, type Trial, Untried } from "./answer.ts";
import { HEALTH, PROMISES } from "./promises.ts";

/** The fields that tell orders of verifications from others. Doubles would change both integers. */
const FIELDS = { petId: INT64_MAX, quantity: INT64_MIN };

/** A verification sends fewer requests with bad credentials. */
const BAD_CREDENTIALS = 20;

/** The largest id of such an order. Small ids are near the beginning of the list. */
const LARGEST_ID = INT64_MIN + 2n ** 32n;

/** By the database's clock, when another verification may remove the order of one that was killed. */
const AN_HOUR_AGO = sql`strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour')`;

export interface PromiseResult {
  readonly promise: string;
  readonly result: "kept" | "broken" | "untried";
  /** Why the promise is untried, or how the response to which request breaks it. */
  readonly reason?: string;
}

/** Returns a text such as `37 promises kept, 0 broken, 1 not tried`. */
export function countResults(promises: readonly PromiseResult[]): string {
  const count = (wanted: string) => promises.filter(({ result }) => result === wanted).length;
  return `${count("kept")} promises kept, ${count("broken")} broken, ${count("untried")} not tried`;
}

/** @throws an Error if the service, or a part of it, does not respond, or another version does. */
export async function requireHealth(service: Service): Promise<void> {
  await call(service, HEALTH);
}

/**
 * @throws an Error if this address has sent so many bad credentials that the service refuses those of a
 *   verification until its day window ends. A minute window ends while a verification waits.
 */
export async function requireBudget(service: Service): Promise<void> {
  const { windows, receivedMs } = await call(service, { authorization: null });
  const day = windows.find(({ name }) => name === "day");
  if (day === undefined || day.remaining >= BAD_CREDENTIALS) return;
  const end = formatTime(new Date(receivedMs + day.resetSeconds * 1_000));
  throw new Error(
    `this machine's address has sent too many bad credentials today, so nothing was tried: run the same command after ${end}, or from another address`,
  );
}

/** A service, and a function that is called with the result of each promise as soon as it is tried. */
type ReportedService = Service & { readonly report?: (result: PromiseResult) => void };

/**
 * Tries the promises of docs/api.md and docs/limits.md on a running service.
 *
 * @throws {OtherVersionError} if a response does not name the version `service.version`.
 * @throws if the service does not respond or does not know the key, if `signal` is aborted or
 *   `revoke` fails.
 */
export async function verify(
  service: ReportedService,
  own: Pick<Trial, "key" | "revoke" | "orders">,
): Promise<PromiseResult[]> {
  const seen = { crowd: [] };
  const results: PromiseResult[] = [];
  for (const [promise, test] of Object.entries(PROMISES)) {
    service.signal.throwIfAborted();
    const trial: Trial = { ...service, ...own, promise, seen };
    let result: PromiseResult = { promise, result: "kept" };
    try {
      await (typeof test === "function" ? test(trial) : call(trial, test));
    } catch (error) {
      const isBroken = error instanceof BrokenPromise;
      if (!isBroken && !(error instanceof Untried)) throw error;
      const reason = withoutSecrets(error.message);
      result = { promise, result: isBroken ? "broken" : "untried", reason };
    }
    results.push(result);
    service.report?.(result);
  }
  return results;
}

export type StoreVerifyOptions = ReportedService &
  Readonly<{
    /** The store of the service. */
    store: Pick<StoreCommandOptions, "env" | "persistTo">;
    /** True places a pending order, and removes it at the end. */
    isWriting?: boolean;
  }>;

/**
 * Verifies a service with a new key on the Free plan. At the end, even after an error, removes the
 * key and the pending order, and those that killed verifications have left.
 *
 * @throws an Error whose message lists all failures, also those of revoking and removing.
 */
export async function verifyStore(options: StoreVerifyOptions): Promise<PromiseResult[]> {
  const { store, isWriting = false } = options;
  const orderId = INT64_MIN + BigInt(Math.floor(Math.random() * 2 ** 32));
  return useDatabase(store, "keys", async (keys) => {
    const now = await databaseTime(keys.orm);
    const { key, record } = createVerificationKey(now);
    const actor = currentActor();
    const inOrders = <T>(work: (database: StoreDatabase) => Promise<T>) =>
      isWriting ? useDatabase(store, "orders", work) : undefined;
    const verifyOwn = async () => {
      await addKeys(keys, [record], actor);
      const placed = await inOrders((database) => placeOwnOrder(database, orderId, now));
      const revoke = () => changeKey(keys, record.id, { action: "revoke", actor }, revokeApiKey);
      return verify(options, { key, revoke, orders: placed });
    };
    const failures: Error[] = [];
    const keep = (failure: Error) => void failures.push(failure);
    // Removing twice does no harm, and the connection may have been lost.
    const remove = (what: string, work: () => Promise<void> | undefined) =>
      retry(async () => work(), { retries: 2, minTimeout: 100 }).catch(({ message }: Error) => {
        const later = "is not removed; another one removes it an hour later";
        keep(new Error(`the ${what} of this verification ${later}: ${message}`));
      });
    const verified = await verifyOwn().catch(keep);
    // Cleans up even after an error: the database may have stored the key or the order nevertheless.
    await remove(`key ${record.id}`, () => deleteVerificationKeys(keys, record.id));
    await remove(`order ${orderId}`, () => inOrders((own) => removeOwnOrders(own, orderId)));
    if (verified && failures.length === 0) return verified;
    throw new Error(failures.map(({ message }) => message).join("\n"), { cause: failures[0] });
  });
}

async function placeOwnOrder({ orm }: StoreDatabase, id: bigint, now: Date) {
  const order = { id, ...FIELDS, shipDate: now.toISOString(), complete: false };
  await orm.insert(orders).values(order);
  const shippedOrders = orm.select({ id: exact(orders.id) }).from(orders);
  const [shipped] = await shippedOrders.where(eq(orders.status, "shipped")).limit(1);
  return { id, json: stringify(order) ?? "", shippedId: shipped?.id };
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
