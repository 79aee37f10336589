import { requireConfirmation } from "../confirmation.ts";
import type { StoreDatabase } from "../database/database.ts";
import type { StoreCommandOptions } from "../database/open.ts";
import { requireApiKey } from "../key-store/key-details.ts";

/** The options of a command that ends a secret at once. */
export interface EndingOptions extends StoreCommandOptions {
  /** True does not ask. */
  readonly yes: boolean;
}

/**
 * Asks before the present secret of a deployed key ends, which nobody can undo. A local store is
 * changed without asking.
 *
 * @throws an Error for the operator if the answer is no, if nobody can answer, or if no key has
 *   this id.
 */
export async function confirmEnd(
  { orm }: StoreDatabase,
  id: string,
  { env, yes }: EndingOptions,
): Promise<void> {
  if (env === undefined || yes) return;
  const { name, plan } = await requireApiKey(orm, id);
  await requireConfirmation(
    env,
    `This ends the secret of ${id} in ${env} for good: ${name}, plan ${plan}.\n` +
      "Clients that send it are answered 401 within 30 seconds.",
  );
}
