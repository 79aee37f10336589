import { hostname, userInfo } from "node:os";
import { UsageError } from "../command-line.ts";
import { isName } from "../arguments.ts";

const VARIABLE = "STORE_ORDERS_ACTOR";

/**
 * Returns the name of the person or program that changes a key, for the audit trail. This is the
 * environment variable `STORE_ORDERS_ACTOR`, or `account@machine` if the variable is not set.
 *
 * @throws {UsageError} if `isName` rejects the value of the variable.
 */
export function currentActor(): string {
  const named = process.env[VARIABLE] ?? "";
  if (named === "") return `${account()}@${hostname()}`;
  if (isName(named)) return named;
  throw new UsageError(`${VARIABLE} is not a name: set it to one line of up to 100 characters`);
}

/**
 * Returns the name of the operating system's account, or the user id in a container that runs under
 * an id without account.
 */
function account(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}
