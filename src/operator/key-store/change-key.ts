import { hostname, userInfo } from "node:os";
import { isDeepStrictEqual } from "node:util";
import pRetry from "p-retry";
import { changeQueries, creationQueries, isOvertaken, type Operation } from "./key-changes.ts";
import { type Database, findApiKey, type KeyDetails } from "./key-details.ts";
import { isName, noSuchKey } from "../arguments.ts";
import { UsageError } from "../command-line.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";

/** How often a change is retried if another operator changes the same key at the same time. */
const RETRIES = 10;

/** Stores new keys and records them in the audit trail. */
export async function addKeys(database: StoreDatabase, keys: readonly KeyDetails[]): Promise<void> {
  const actor = currentActor();
  const queries = keys.flatMap((key) => creationQueries(database.orm, key, actor));
  await store(database, queries, keys);
}

/**
 * Changes a key and records the change in the audit trail. Writes nothing if `decide` returns an
 * equal key.
 *
 * @param decide returns the changed key. It runs again, with the newer key, if another operator
 *   changes the key between reading and writing.
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
    await store(database, queries, [after]);
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

/**
 * Runs the queries in one transaction. If it fails, looks the keys up, because the connection may
 * have been lost after the transaction: the secret of a stored key must be printed.
 */
async function store(
  database: StoreDatabase,
  queries: Parameters<typeof toStatements>[0],
  keys: readonly KeyDetails[],
): Promise<void> {
  try {
    await database.transaction(toStatements(queries));
  } catch (error) {
    const stored = keys.map(async (key) => isSame(key, await findApiKey(database.orm, key.id)));
    const areStored = await Promise.all(stored).catch(() => [false]);
    if (areStored.includes(false)) throw error;
  }
}

/** Compares two keys, except their bans, which requests change at any time. */
function isSame(one: KeyDetails, other: KeyDetails | undefined): boolean {
  return isDeepStrictEqual({ ...other, bannedUntil: null }, { ...one, bannedUntil: null });
}

/** Finds a key by its id. Throws an Error for the operator if no key has this id. */
export async function requireApiKey(orm: Database, id: string): Promise<KeyDetails> {
  const key = await findApiKey(orm, id);
  if (key === undefined) throw noSuchKey(id);
  return key;
}

/**
 * Returns the name of the person or program that changes a key, for the audit trail: the
 * environment variable `STORE_ORDERS_ACTOR`, or `account@machine` if the variable is not set.
 *
 * @throws {UsageError} if `isName` rejects the value of the variable.
 */
export function currentActor(): string {
  const named = process.env["STORE_ORDERS_ACTOR"] ?? "";
  if (named === "") return `${account()}@${hostname()}`;
  if (isName(named)) return named;
  throw new UsageError(
    "STORE_ORDERS_ACTOR is not a name: set it to one line of up to 100 characters",
  );
}

/** A container can run under a user id without an account. */
function account(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}
