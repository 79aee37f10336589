import { hostname } from "node:os";
import { isName } from "../../rules/keys/key-name.ts";
import { UsageError } from "../command-line.ts";

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
