import { requireConfirmation } from "../confirmation.ts";
import type { StoreDatabase } from "../database/database.ts";
import type { StoreCommandOptions } from "../database/open.ts";
import { requireApiKey } from "../key-store/key-details.ts";

/** The options of a command that changes a key for good. */
export interface LastingOptions extends StoreCommandOptions {
  /** True does not ask. */
  readonly yes: boolean;
}

/** The consequences of changes that nobody can undo. */
const CONSEQUENCES = {
  end: "This ends its present secret for good. Clients that send it are answered 401 afterwards.",
  reset: "This forgets the counts of both windows, its ban and its earlier bans for good.",
};

/**
 * Asks before a change of a deployed key that nobody can undo. A local store is changed without
 * asking.
 *
 * @throws an Error for the operator if the answer is no, if nobody can answer, or if no key has
 *   this id.
 */
export async function confirmChange(
  { orm }: StoreDatabase,
  id: string,
  change: keyof typeof CONSEQUENCES,
  { env, yes }: LastingOptions,
): Promise<void> {
  if (env === undefined || yes) return;
  const { name, plan } = await requireApiKey(orm, id);
  const key = `The key ${id} in ${env}: ${name}, plan ${plan}.`;
  await requireConfirmation(env, `${key}\n${CONSEQUENCES[change]}`);
}
