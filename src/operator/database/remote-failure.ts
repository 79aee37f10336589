import type { RemoteEnvironment } from "../environment.ts";
import type { DatabaseName } from "./database.ts";

/** A database of a deployed environment. */
export interface RemoteTarget {
  readonly environment: RemoteEnvironment;
  readonly name: DatabaseName;
}

/** Cloudflare's and the network's failures that pass; D1's own as its documentation lists them. */
const TRANSIENT =
  /fetch failed|malformed response|Network connection lost|D1 DB is overloaded|caused object to be reset|D1 DB reset because its code was updated|\[code: 971\]/;

/** The transient failures in which the statement never began. */
const NOT_BEGUN = /D1 DB is overloaded|while starting up D1 DB storage|\[code: 971\]/;

/** Whether the same statement may succeed if it is sent again. */
export function mayRetry(error: Error, change: "reads" | "writes"): boolean {
  return (change === "reads" ? TRANSIENT : NOT_BEGUN).test(error.message);
}

/** Whether wrangler found no database under the name that `wrangler.toml` gives it. */
export function isMissingDatabase(error: Error): boolean {
  return error.message.includes("Couldn't find a D1 DB");
}

/** wrangler's failure in words for the operator, with what to do next. */
export function describeFailure(
  error: Error,
  { environment, name }: RemoteTarget,
  change: "reads" | "writes",
): Error {
  const advice = isMissingDatabase(error)
    ? `there is none yet: ${deployFirst(environment)}`
    : advise(error.message, environment, change);
  return new Error(`${environment} ${name} database: ${advice}`, { cause: error });
}

function advise(message: string, environment: string, change: "reads" | "writes"): string {
  if (/no such (?:table|column)/.test(message)) {
    return `migrations are missing (${message}): ${deployFirst(environment)}`;
  }
  if (
    /CLOUDFLARE_API_TOKEN|not logged in|Authentication error|Invalid access token/i.test(message)
  ) {
    return `not logged in to Cloudflare: run \`npx wrangler login\`, or set CLOUDFLARE_API_TOKEN to a valid token (${message})`;
  }
  if (change === "writes" && TRANSIENT.test(message) && !NOT_BEGUN.test(message)) {
    return `${message}. Whether the change was made is not known: check before you repeat it`;
  }
  return message;
}

function deployFirst(environment: string): string {
  return `run \`npm run deploy -- --env ${environment}\` first`;
}
