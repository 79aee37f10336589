import { isDeepStrictEqual } from "node:util";
import pRetry from "p-retry";
import type { Operation } from "./audit-trail.ts";
import { changeQueries, creationQueries, isOvertaken } from "./key-changes.ts";
import { findApiKey, type KeyDetails } from "./key-details.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { currentActor } from "./actor.ts";
import { requireKey } from "./require-key.ts";

/** Of two operators who change one key at a time, one has to try again. */
const RETRIES = 10;

/** Stores new keys and adds that to the audit trail. */
export async function addKeys(database: StoreDatabase, keys: readonly KeyDetails[]): Promise<void> {
  const actor = currentActor();
  const queries = keys.flatMap((key) => creationQueries(database.orm, key, actor));
  await database.transaction(toStatements(queries));
}

/**
 * Changes a key and adds that to the audit trail, or neither where nothing would change.
 *
 * @param decide what the key is to be. It is asked again where somebody else has changed the key
 *   meanwhile, so that what it replaces is what it has seen.
 * @returns the key after the change.
 * @throws what `decide` throws; an Error for the operator where no key has this id.
 */
export async function changeKey(
  database: StoreDatabase,
  id: string,
  action: Operation["action"],
  decide: (current: KeyDetails, now: Date) => KeyDetails,
): Promise<KeyDetails> {
  const operation = { action, actor: currentActor(), at: new Date() };
  const attempt = async (): Promise<KeyDetails> => {
    const before = requireKey(await findApiKey(database.orm, id), id);
    const decided = decide(before, operation.at);
    if (isDeepStrictEqual(before, decided)) return before;
    const after = { ...decided, revision: before.revision + 1 };
    const queries = changeQueries(database.orm, before, after, operation);
    await database.transaction(toStatements(queries));
    return after;
  };
  return pRetry(attempt, {
    retries: RETRIES,
    minTimeout: 20,
    maxTimeout: 500,
    randomize: true,
    shouldRetry: ({ error }) => isOvertaken(error),
  });
}
