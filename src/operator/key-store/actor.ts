import { hostname, userInfo } from "node:os";
import { UsageError } from "../command-line.ts";
import { isName } from "../arguments.ts";

const VARIABLE = "STORE_ORDERS_ACTOR";

/**
 * Who changes a key, for the audit trail: what the environment variable says, or else the account
 * and the machine.
 *
 * @throws {UsageError} if the variable holds something that is no name.
 */
export function currentActor(): string {
  const named = process.env[VARIABLE] ?? "";
  if (named === "") return `${account()}@${hostname()}`;
  if (isName(named)) return named;
  throw new UsageError(`${VARIABLE} names who changes a key, in one line of up to 100 characters`);
}

/** A container may run under a number that no account has. */
function account(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}
