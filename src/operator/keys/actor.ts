import { hostname } from "node:os";
import {
  addKeys as addKeysOf,
  changeKey as changeKeyOf,
  type Decide,
  type Operation,
  UnknownOutcomeError,
} from "../../store/keys/change-key.ts";
import type { KeyAtTime, KeyDetails } from "../../store/keys/key-settings.ts";
import type { StoreDatabase } from "../../store/database.ts";
import { Refusal } from "../../store/refusal.ts";
import { isName } from "../../rules/keys/key-name.ts";
import { onSameStore, UsageError } from "../command-line.ts";

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

/** Stores new keys, as `addKeys` of the store, in the name of the present operator. */
export function addKeys(database: StoreDatabase, keys: readonly KeyDetails[]): Promise<void> {
  return withAdvice(addKeysOf(database, keys, currentActor()));
}

/** Changes a key, as `changeKey` of the store, in the name of the present operator. */
export function changeKey(
  database: StoreDatabase,
  id: string,
  action: Operation["action"],
  decide: Decide,
): Promise<KeyAtTime> {
  return withAdvice(
    changeKeyOf(database, id, { action, actor: currentActor() }, decide),
    id,
    action,
  );
}

/** Adds to an error what the operator should do next. */
async function withAdvice<T>(
  changing: Promise<T>,
  id?: string,
  action?: Operation["action"],
): Promise<T> {
  try {
    return await changing;
  } catch (cause) {
    if (cause instanceof UnknownOutcomeError) {
      const advice = cause.keyIds.map((each) => lookFirst(each, action)).join(". ");
      throw new Error(`${cause.message}. ${advice}`, { cause });
    }
    if (cause instanceof Refusal && cause.code === "key_not_found") throw unknownKey(id);
    throw cause;
  }
}

/** Returns the error of an id that no key has. */
export function unknownKey(id: string | undefined): Error {
  const all = onSameStore("npm run keys -- list");
  return new Error(`no key has the id ${JSON.stringify(id)}; \`${all}\` shows the ids`);
}

/** Says how to go on after a change of a key that was perhaps stored. */
export function lookFirst(id: string, action?: Operation["action"]): string {
  // They change nothing the second time.
  if (action === "revoke" || action === "update") return "Run the same command again";
  const command = (name: string) => `\`${onSameStore(`npm run keys -- ${name} ${id}`)}\``;
  return `Look at ${command("audit")} before you run the same command again: if the change was made, do not repeat it. If a new secret was lost with it, ${command("rotate")} makes another`;
}
