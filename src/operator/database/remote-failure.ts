import type { RemoteEnvironment } from "../environment.ts";
import type { DatabaseName } from "./database.ts";

/** A database of a deployed environment. */
export interface RemoteTarget {
  readonly environment: RemoteEnvironment;
  readonly name: DatabaseName;
}

/** The error message for an operator who is not logged in. */
export const NOT_LOGGED_IN =
  "not logged in to Cloudflare: run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN to a valid token";

/** Thrown if Cloudflare's API responds with an error. */
export class D1ApiError extends Error {
  override readonly name = "D1ApiError";
  readonly status: number;

  constructor(message: string, status: number) {
    super(`${message} (HTTP ${status})`);
    this.status = status;
  }
}

/** What a statement does to the database. A statement that `stores once` is an idempotent write. */
export type Change = "reads" | "stores once" | "writes";

/**
 * Matches transient failures of the network and of Cloudflare, including those that D1 documents.
 */
const TRANSIENT =
  /fetch failed|terminated|aborted due to timeout|malformed response|Network connection lost|D1 DB is overloaded|caused object to be reset|D1 DB reset because its code was updated|\[code: 971\]|\(HTTP (?:429|5\d\d)\)/;

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

/** Returns whether wrangler failed because the database in `wrangler.toml` does not exist. */
export function isMissingDatabase(error: Error): boolean {
  return error.message.includes("Couldn't find a D1 DB");
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
  const advice = isMissingDatabase(error)
    ? `there is none yet: ${deployFirst(environment)}`
    : advise(error.message, environment, change);
  return new Error(`${environment} ${name} database: ${advice}`, { cause: error });
}

function advise(message: string, environment: string, change: Change): string {
  if (/no such (?:table|column)/.test(message)) {
    return `migrations are missing (${message}): ${deployFirst(environment)}`;
  }
  if (/CLOUDFLARE_API_TOKEN|not logged in/i.test(message)) return NOT_LOGGED_IN;
  if (/Authentication error|Invalid access token/i.test(message)) {
    return `${NOT_LOGGED_IN} (${message})`;
  }
  if (change === "writes" && TRANSIENT.test(message) && !NOT_BEGUN.test(message)) {
    return `${message}. It is not known whether the change was made: check before you repeat it`;
  }
  return message;
}

function deployFirst(environment: string): string {
  return `run \`npm run deploy -- --env ${environment}\` first`;
}
