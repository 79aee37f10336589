import { isDeepStrictEqual } from "node:util";
import pRetry from "p-retry";
import type { Operation } from "./audit-trail.ts";
import { changeQueries, creationQueries, isOvertaken } from "./key-changes.ts";
import { type KeyDetails, requireApiKey } from "./key-details.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { currentActor } from "./actor.ts";

/** How often a change is retried if another operator changes the same key at the same time. */
const RETRIES = 10;

/** Stores new keys and records them in the audit trail. */
export async function addKeys(database: StoreDatabase, keys: readonly KeyDetails[]): Promise<void> {
  const actor = currentActor();
  const queries = keys.flatMap((key) => creationQueries(database.orm, key, actor));
  await database.transaction(toStatements(queries));
}

/**
 * Changes a key and records the change in the audit trail. Writes nothing if `decide` returns an
 * equal key.
 *
 * @param decide returns the changed key. It runs again, with the newer key, if another operator
 *   changes the key between reading and writing.
 * @returns the key after the change.
 * @throws every error of `decide`; an Error for the operator if no key has this id.
 */
export async function changeKey(
  database: StoreDatabase,
  id: string,
  action: Operation["action"],
  decide: (current: KeyDetails, now: Date) => KeyDetails,
): Promise<KeyDetails> {
  const operation = { action, actor: currentActor(), at: new Date() };
  const attempt = async (): Promise<KeyDetails> => {
    const before = await requireApiKey(database.orm, id);
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
