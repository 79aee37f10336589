import type { RemoteEnvironment } from "../environment.ts";
import type { DatabaseName } from "./database.ts";

/** A database of a deployed environment. */
export interface RemoteTarget {
  readonly environment: RemoteEnvironment;
  readonly name: DatabaseName;
}

/** Says how to log in. */
export const NOT_LOGGED_IN =
  "not logged in to Cloudflare: run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN to a valid token";

/** An error answer of Cloudflare's API. */
export class D1ApiError extends Error {
  override readonly name = "D1ApiError";
  readonly status: number;

  constructor(message: string, status: number) {
    super(`${message} (HTTP ${status})`);
    this.status = status;
  }
}

/**
 * What a statement does. `stores once` means that its effect stays the same if it is sent twice.
 */
export type Change = "reads" | "stores once" | "writes";

/** Transient failures of Cloudflare and the network, among them those that D1 documents. */
const TRANSIENT =
  /fetch failed|terminated|aborted due to timeout|malformed response|Network connection lost|D1 DB is overloaded|caused object to be reset|D1 DB reset because its code was updated|\[code: 971\]|\(HTTP (?:429|5\d\d)\)/;

/** Transient failures after which the statement surely never began. */
const NOT_BEGUN = /D1 DB is overloaded|while starting up D1 DB storage|\[code: 971\]|\(HTTP 429\)/;

/**
 * Returns whether a statement may be sent again. A write may only if it never began, and other
 * statements after any transient failure.
 */
export function mayRetry(error: Error, change: Change): boolean {
  return (change === "writes" ? NOT_BEGUN : TRANSIENT).test(error.message);
}

/** Returns whether wrangler found no database of the name in `wrangler.toml`. */
export function isMissingDatabase(error: Error): boolean {
  return error.message.includes("Couldn't find a D1 DB");
}

/** Returns whether a query failed on a missing table. drizzle keeps that error as its cause. */
export function isMissingTable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.message.includes("no such table") || isMissingTable(error.cause);
}

/** Describes wrangler's failure for the operator, with what to do next. */
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
