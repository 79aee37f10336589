import { useDatabase } from "../database/open.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { revokeApiKey } from "../key-store/administration.ts";
import { addKeys, changeKey } from "../key-store/change-key.ts";
import { createVerificationKey } from "../key-store/verification-key.ts";
import { placeOwnOrders, removeOwnOrder } from "./own-orders.ts";
import { type Verification, verify, type VerifyOptions } from "./verify.ts";

/** The options of a verification that creates its own key in the service's database. */
export interface StoreVerifyOptions extends Omit<
  VerifyOptions,
  "key" | "isKeyNew" | "revoke" | "orders"
> {
  /** The store of the service: the store of a deployed environment, or a local store. */
  readonly store: { readonly env?: RemoteEnvironment; readonly persistTo?: string };
  /** True places two orders. The pending order is removed again; the shipped order stays. */
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
  signal,
  ...options
}: StoreVerifyOptions): Promise<Verification> {
  const { key, record } = createVerificationKey(new Date());
  await useDatabase(store, "keys", (database) => addKeys(database, [record]));
  let isRevoked = false;
  const revoke = async (): Promise<void> => {
    await revokeKey(store, record.id);
    isRevoked = true;
  };
  const orders = isWriting ? useDatabase(store, "orders", placeOwnOrders) : undefined;
  // Aborts the verification as soon as the insertion of the test orders fails.
  const failure = new AbortController();
  orders?.catch((error: unknown) => failure.abort(error));
  const signals = [failure.signal, ...(signal === undefined ? [] : [signal])];
  const [verified] = await Promise.allSettled([
    verify({ ...options, key, isKeyNew: true, revoke, orders, signal: AbortSignal.any(signals) }),
  ]);
  const cleanedUp = await Promise.allSettled([
    isRevoked ? undefined : revoke(),
    orders?.then(({ pending }) =>
      useDatabase(store, "orders", (database) => removeOwnOrder(database, pending.id)),
    ),
  ]);
  const failures = [verified, ...cleanedUp].flatMap((settled) =>
    settled.status === "rejected" ? [(settled.reason as Error).message] : [],
  );
  if (verified.status === "fulfilled" && failures.length === 0) return verified.value;
  throw new Error([...new Set(failures)].join("\n"));
}

async function revokeKey(store: StoreVerifyOptions["store"], id: string): Promise<void> {
  try {
    await useDatabase(store, "keys", (database) => changeKey(database, id, "revoke", revokeApiKey));
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `the key ${id} of this verification is not revoked and ends by itself within ten minutes: ${message}`,
      { cause: error },
    );
  }
}
