import { useDatabase } from "../database/open.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { createVerificationKey, revokeApiKey } from "../key-store/administration.ts";
import { addKeys, changeKey } from "../key-store/change-key.ts";
import { findApiKey } from "../key-store/key-details.ts";
import { SYSTEM_CLOCK } from "./service-promise.ts";
import { placeOwnOrders, randomOrderId, removeOwnOrder } from "./own-orders.ts";
import { type Verification, verify, type VerifyOptions } from "./verify.ts";

/** The options of a verification that creates its own key in the service's database. */
export interface StoreVerifyOptions extends Omit<VerifyOptions, "key" | "revoke" | "orders"> {
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
  ...options
}: StoreVerifyOptions): Promise<Verification> {
  const { key, record } = createVerificationKey(new Date((options.clock ?? SYSTEM_CLOCK).now()));
  const orderId = randomOrderId();
  let isRevoked = false;
  const revoke = async (): Promise<void> => {
    await useDatabase(store, "keys", async (database) => {
      if ((await findApiKey(database.orm, record.id)) === undefined) return;
      await changeKey(database, record.id, "revoke", revokeApiKey);
    }).catch(
      failWith(
        `the key ${record.id} of this verification is not revoked and ends by itself within ten minutes`,
      ),
    );
    isRevoked = true;
  };
  const removeOrder = () =>
    useDatabase(store, "orders", (database) => removeOwnOrder(database, orderId)).catch(
      failWith(`the order ${orderId} of this verification may still be in the store; cancel it`),
    );
  const verifyWithKey = async (): Promise<Verification> => {
    await useDatabase(store, "keys", (database) => addKeys(database, [record]));
    const orders = isWriting
      ? await useDatabase(store, "orders", (database) => placeOwnOrders(database, orderId))
      : undefined;
    return verify({ ...options, key, revoke, orders });
  };
  const [verified] = await Promise.allSettled([verifyWithKey()]);
  // Cleans up even if the key or the order could not be stored, because only the answer may be lost.
  const cleanedUp = await Promise.allSettled([
    isRevoked ? undefined : revoke(),
    isWriting ? removeOrder() : undefined,
  ]);
  const failures = [verified, ...cleanedUp].flatMap((settled) =>
    settled.status === "rejected" ? [settled.reason as Error] : [],
  );
  if (verified.status === "fulfilled" && failures.length === 0) return verified.value;
  const [cause] = failures;
  throw new Error(failures.map(({ message }) => message).join("\n"), { cause });
}

/** Returns a handler that says what a failure leaves behind. */
function failWith(remains: string): (error: Error) => never {
  return (cause) => {
    throw new Error(`${remains}: ${cause.message}`, { cause });
  };
}
