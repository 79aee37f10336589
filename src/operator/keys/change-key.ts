import { hostname } from "node:os";
import { isDeepStrictEqual } from "node:util";
import pRetry from "p-retry";
import type { SQLWrapper } from "drizzle-orm";
import { change, creation, isOvertaken, type Operation } from "./key-changes.ts";
import { findApiKey, type KeyDetails } from "./stored-keys.ts";
import { isName } from "../arguments.ts";
import { onSameStore, UsageError } from "../command-line.ts";
import { databaseTime, type Orm, type StoreDatabase } from "../database/database.ts";

/** Stores new keys and records them in the audit trail. */
export async function addKeys(database: StoreDatabase, keys: readonly KeyDetails[]): Promise<void> {
  const actor = currentActor();
  const statements = keys.flatMap((key) => creation(database.orm, key, actor));
  await store(database, statements, keys);
}

/**
 * Changes a key and records the change in the audit trail. Writes nothing if nothing changes.
 *
 * @param decide returns the changed key. `now` is the database's time. Runs again if another operator changes the key meanwhile.
 * @throws every error of `decide`; an Error for the operator if no key has this id.
 */
export async function changeKey(
  database: StoreDatabase,
  id: string,
  action: Operation["action"],
  decide: (current: KeyDetails, now: Date) => KeyDetails,
): Promise<KeyDetails> {
  const actor = currentActor();
  const attempt = async (): Promise<KeyDetails> => {
    const at = await databaseTime(database.orm);
    const before = await requireApiKey(database.orm, id);
    const decided = decide(before, at);
    if (isDeepStrictEqual(before, decided)) return before;
    const after = { ...decided, revision: before.revision + 1 };
    await store(database, change(database.orm, before, after, { action, actor, at }), [after]);
    return after;
  };
  const patience = { retries: 10, minTimeout: 20, maxTimeout: 500, randomize: true };
  return pRetry(attempt, { ...patience, shouldRetry: ({ error }) => isOvertaken(error) });
}

// After an error, looks the keys up: perhaps the connection failed after the transaction. Does not
// throw if the keys are stored, because the caller must print their secrets.
async function store(
  database: StoreDatabase,
  statements: readonly SQLWrapper[],
  keys: readonly KeyDetails[],
): Promise<void> {
  try {
    await database.transaction(statements);
  } catch (error) {
    const looking = keys.map((key) => findApiKey(database.orm, key.id));
    const stored = await Promise.all(looking).catch(() => null);
    if (stored === null) {
      const list = onSameStore("npm run keys -- list");
      throw new Error(
        `${(error as Error).message}. Look at the keys (\`${list}\`) before you run the same command again`,
        { cause: error },
      );
    }
    if (keys.some((key, index) => !isSame(key, stored[index]))) throw error;
  }
}

// Ignores bans, because requests change them at any time.
function isSame(one: KeyDetails, other: KeyDetails | undefined): boolean {
  return isDeepStrictEqual({ ...other, bannedUntil: null }, { ...one, bannedUntil: null });
}

/** Finds a key by its id. Throws an Error for the operator if no key has this id. */
export async function requireApiKey(database: Orm, id: string): Promise<KeyDetails> {
  const key = await findApiKey(database, id);
  if (key !== undefined) return key;
  const list = onSameStore("npm run keys -- list");
  throw new Error(`no key has the id ${JSON.stringify(id)}; \`${list}\` shows the ids`);
}

/**
 * Returns who changes a key, for the audit trail: `STORE_ORDERS_ACTOR`, or else `account@machine`.
 *
 * @throws {UsageError} if the environment variable is not a name.
 */
export function currentActor(): string {
  const { STORE_ORDERS_ACTOR: named, USER: account = `uid ${process.getuid?.()}` } = process.env;
  if (!named) return `${account}@${hostname()}`;
  if (isName(named)) return named;
  throw new UsageError("STORE_ORDERS_ACTOR is no name: set it to one line of up to 100 characters");
}
