import { useDatabase } from "../database/open.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { revokeApiKey } from "../key-store/administration.ts";
import { addKeys, changeKey } from "../key-store/change-key.ts";
import { findApiKey } from "../key-store/key-details.ts";
import { createVerificationKey } from "../key-store/verification-key.ts";
import { placeOwnOrders, randomOrderId, removeOwnOrder } from "./own-orders.ts";
import { type Verification, verify, type VerifyOptions } from "./verify.ts";

/** The options of a verification that creates its own key in the service's database. */
export interface StoreVerifyOptions extends Omit<
  VerifyOptions,
  "key" | "isKeyNew" | "revoke" | "orders"
> {
  /** The store of the service: the store of a deployed environment, or a local store. */
  readonly store: { readonly env?: RemoteEnvironment; readonly persistTo?: string };
  /** True places a pending order, and removes it at the end. */
  readonly isWriting?: boolean;
}

/**
 * Verifies a service with a new key on the Free plan. At the end, even after an error, revokes the
 * key and removes the pending order.
 *
 * @throws an Error for the operator if the verification, the revocation or the removal fails. Its
 *   message lists all these failures.
 */
export async function verifyStore({
  store,
  isWriting = false,
  signal = new AbortController().signal,
  ...options
}: StoreVerifyOptions): Promise<Verification> {
  const { key, record } = createVerificationKey(new Date());
  const orderId = randomOrderId();
  let isRevoked = false;
  const revoke = async (): Promise<void> => {
    await revokeKey(store, record.id);
    isRevoked = true;
  };
  const verifyWithKey = async (): Promise<Verification> => {
    await useDatabase(store, "keys", (database) => addKeys(database, [record]));
    if (!isWriting) return verify({ ...options, key, isKeyNew: true, revoke, signal });
    const orders = useDatabase(store, "orders", (database) => placeOwnOrders(database, orderId));
    // Aborts the verification as soon as the insertion of the order fails.
    const failure = new AbortController();
    orders.catch((error: unknown) => failure.abort(error));
    const either = AbortSignal.any([failure.signal, signal]);
    try {
      return await verify({ ...options, key, isKeyNew: true, revoke, orders, signal: either });
    } finally {
      await Promise.allSettled([orders]);
    }
  };
  const [verified] = await Promise.allSettled([verifyWithKey()]);
  // Cleans up even if the key or the order could not be stored, because only the answer may be lost.
  const cleanedUp = await Promise.allSettled([
    isRevoked ? undefined : revoke(),
    isWriting ? removeOrder(store, orderId) : undefined,
  ]);
  const failures = [verified, ...cleanedUp].flatMap((settled) =>
    settled.status === "rejected" ? [(settled.reason as Error).message] : [],
  );
  if (verified.status === "fulfilled" && failures.length === 0) return verified.value;
  const error = new Error([...new Set(failures)].join("\n"));
  throw verified.status === "rejected" ? Object.assign(error, { cause: verified.reason }) : error;
}

async function revokeKey(store: StoreVerifyOptions["store"], id: string): Promise<void> {
  try {
    await useDatabase(store, "keys", async (database) => {
      if ((await findApiKey(database.orm, id)) === undefined) return;
      await changeKey(database, id, "revoke", revokeApiKey);
    });
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `the key ${id} of this verification is not revoked and ends by itself within ten minutes: ${message}`,
      { cause: error },
    );
  }
}

async function removeOrder(store: StoreVerifyOptions["store"], id: bigint): Promise<void> {
  try {
    await useDatabase(store, "orders", (database) => removeOwnOrder(database, id));
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `the order ${id} of this verification may still be in the store. Cancel it: DELETE /v1/store/orders/${id} (${message})`,
      { cause: error },
    );
  }
}
