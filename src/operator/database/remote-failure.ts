import { CloudflareError } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../environment.ts";
import type { DatabaseName } from "./database.ts";

/** A database of a deployed environment. */
export interface RemoteTarget {
  readonly environment: RemoteEnvironment;
  readonly name: DatabaseName;
}

/** What a statement does to the database. A statement that `stores once` is an idempotent write. */
export type Change = "reads" | "stores once" | "writes";

/**
 * Matches transient failures of the network and of Cloudflare, including those that D1 documents.
 */
const TRANSIENT =
  /no answer|malformed answer|fetch failed|Network connection lost|D1 DB is overloaded|caused object to be reset|D1 DB reset because its code was updated|\[code: 971\]|\(HTTP (?:429|5\d\d)\)/;

/** Matches transient failures that happen before D1 begins to run a statement. */
const NOT_BEGUN = /D1 DB is overloaded|while starting up D1 DB storage|\[code: 971\]|\(HTTP 429\)/;

/**
 * Returns whether a failed statement may be sent again. Reads and idempotent writes may be sent
 * again after any transient failure. Other writes may be sent again only if D1 never began to run
 * them.
 */
export function mayRetry(error: Error, change: Change): boolean {
  return (change === "writes" ? NOT_BEGUN : TRANSIENT).test(error.message);
}

/**
 * Returns whether a query failed because a table is missing. Searches the causes of the error too.
 */
export function isMissingTable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.message.includes("no such table") || isMissingTable(error.cause);
}

/** Returns an Error that describes a failure and tells the operator what to do next. */
export function describeFailure(
  error: Error,
  { environment, name }: RemoteTarget,
  change: Change,
): Error {
  const reason = error instanceof CloudflareError ? error.reason : error.message;
  const database = `${environment} ${name} database`;
  const failure = (advice: string) => new Error(`${database}: ${advice}`, { cause: error });
  if (/no such (?:table|column)/.test(reason)) {
    return failure(`migrations are missing (${reason}): ${deployFirst(environment)}`);
  }
  const isUnknown = change === "writes" && TRANSIENT.test(reason) && !NOT_BEGUN.test(reason);
  const unknown = "It is not known whether the change was made: check before you repeat it";
  return failure(isUnknown ? `${reason}. ${unknown}` : reason);
}

/** Returns the advice to deploy an environment that lacks a database or a table. */
export function deployFirst(environment: string): string {
  return `run \`npm run deploy -- --env ${environment}\` first`;
}
