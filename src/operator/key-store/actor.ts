import { hostname, userInfo } from "node:os";
import { UsageError } from "../command-line.ts";
import { isName } from "../arguments.ts";

const VARIABLE = "STORE_ORDERS_ACTOR";

/**
 * Returns who changes a key, for the audit trail: the value of the environment variable, or else
 * the account and the machine.
 *
 * @throws {UsageError} if the variable holds something other than a name.
 */
export function currentActor(): string {
  const named = process.env[VARIABLE] ?? "";
  if (named === "") return `${account()}@${hostname()}`;
  if (isName(named)) return named;
  throw new UsageError(`${VARIABLE} is not a name: set it to one line of up to 100 characters`);
}

/** A container may run under a user id that has no account. */
function account(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}
