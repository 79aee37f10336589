import { requireConfirmation } from "../confirmation.ts";
import type { StoreDatabase } from "../database/database.ts";
import type { StoreCommandOptions } from "../database/open.ts";
import { requireApiKey } from "../key-store/change-key.ts";

/** The options of a command that changes a key permanently. */
export interface LastingOptions extends StoreCommandOptions {
  /** True skips the confirmation. */
  readonly yes: boolean;
}

/** The text about the consequence of each change that cannot be undone. */
const CONSEQUENCES = {
  end: "This ends its present secret for good. Clients that send it are answered 401 afterwards.",
  reset: "This forgets the counts of both windows, its ban and its earlier bans for good.",
};

/**
 * Asks for confirmation before a change of a deployed key that cannot be undone. Does not ask if
 * the key is in a local store.
 *
 * @throws an Error for the operator if the operator does not confirm, if standard input is no
 *   terminal, or if no key has this id.
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
