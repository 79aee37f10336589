import pRetry from "p-retry";
import { z } from "zod";
import { CloudflareApi, CloudflareError } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import { readSettings } from "../settings.ts";
import type { DatabaseName, Statement } from "./database.ts";

export interface RemoteTarget {
  readonly env: RemoteEnvironment;
  readonly name: DatabaseName;
}

export interface Connection {
  readonly target: RemoteTarget;
  readonly api: CloudflareApi;
  /** The path of the database in Cloudflare's API. */
  readonly path: string;
}

/** The body of a query: statements separated by semicolons, or one at a time with parameters. */
type D1Query = { readonly sql: string } | { readonly batch: readonly Statement[] };

/** The effect of a statement on the database. `stores once` is an idempotent write. */
export type Change = "reads" | "stores once" | "writes";

/** Matches transient failures of the network and Cloudflare, including those that D1 documents. */
const TRANSIENT =
  /no answer|malformed answer|fetch failed|Network connection lost|D1 DB is overloaded|caused object to be reset|D1 DB reset because its code was updated|\[code: 971\]|\(HTTP (?:429|5\d\d)\)/;
/** Matches transient failures that happen before D1 begins to run a statement. */
const NOT_BEGUN = /D1 DB is overloaded|while starting up D1 DB storage|\[code: 971\]|\(HTTP 429\)/;

const RETRIES = 4;
/** Enough retries for at least 30 seconds, so that a short failure does not abort an import. */
const PATIENT_RETRIES = 8;
const LONGEST_PAUSE_MS = 8_000;

const databasesSchema = z.array(
  z.object({
    name: z.string(),
    uuid: z.string(),
    /** The jurisdiction that the database never leaves; `null` if it has none. */
    jurisdiction: z.nullable(z.string()).default(null),
  }),
);
const resultsSchema = z.array(
  z.object({ results: z.object({ rows: z.array(z.array(z.unknown())) }) }),
);

/** Finds a database of the account by its name; `undefined` if no database has this name. */
export async function findDatabase(api: CloudflareApi, name: string) {
  const path = `${api.account}/d1/database?name=${encodeURIComponent(name)}&page=1&per_page=100`;
  return (await api.call(path, databasesSchema)).find((database) => database.name === name);
}

/** @throws an Error for the operator if nobody is logged in or the database does not exist. */
export function connect(target: RemoteTarget): Promise<Connection> {
  return retrying(target, "reads", async () => {
    const api = await CloudflareApi.open();
    const { databases } = await readSettings(target.env);
    const found = await findDatabase(api, databases[target.name]);
    if (found === undefined) throw new Error(`there is none yet: ${deployFirst(target)}`);
    return { target, api, path: `${api.account}/d1/database/${found.uuid}` };
  });
}

/**
 * Sends SQL statements, which D1 runs as a batch, in one transaction
 * (https://developers.cloudflare.com/d1/worker-api/d1-database/#batch). Returns the first
 * statement's rows.
 *
 * @throws {CloudflareError} if Cloudflare refuses the query or does not respond.
 */
export async function sendOnce({ api, path }: Connection, body: D1Query): Promise<unknown[][]> {
  const [first] = await api.call(`${path}/raw`, resultsSchema, { method: "POST", body });
  return first?.results.rows ?? [];
}

/** Sends a query as `sendOnce` does, and retries it as `retrying` does. */
export function sendQuery(
  connection: Connection,
  change: Change,
  query: D1Query,
): Promise<unknown[][]> {
  return retrying(connection.target, change, () => sendOnce(connection, query));
}

/** Finds the D1 Time Travel bookmark of a database's state at a time, by default now. */
export async function findBookmark({ target, api, path }: Connection, at?: Date): Promise<string> {
  const query = at === undefined ? "" : `?timestamp=${at.toISOString()}`;
  const schema = z.object({ bookmark: z.string() });
  const find = () => api.call(`${path}/time_travel/bookmark${query}`, schema);
  return (await retrying(target, "reads", find)).bookmark;
}

/** Restores a whole database to the state of a bookmark. D1 cancels all running queries. */
export async function restoreBookmark(
  { target, api, path }: Connection,
  bookmark: string,
): Promise<void> {
  const url = `${path}/time_travel/restore?bookmark=${encodeURIComponent(bookmark)}`;
  const restore = () => api.call(url, z.object({ bookmark: z.string() }), { method: "POST" });
  await retrying(target, "stores once", restore);
}

/**
 * Retries a call after transient failures. Retries `writes` only if D1 did not begin to run them.
 *
 * @throws an Error that describes the last failure for the operator.
 */
export async function retrying<T>(
  target: RemoteTarget,
  change: Change,
  attempt: () => Promise<T>,
): Promise<T> {
  try {
    return await pRetry(attempt, {
      retries: change === "stores once" ? PATIENT_RETRIES : RETRIES,
      minTimeout: 500,
      maxTimeout: LONGEST_PAUSE_MS,
      randomize: true,
      shouldRetry: ({ error }) => (change === "writes" ? NOT_BEGUN : TRANSIENT).test(error.message),
    });
  } catch (error) {
    throw describeFailure(error as Error, target, change);
  }
}

/** Returns an error that tells the operator what failed and, if known, what to do next. */
function describeFailure(error: Error, target: RemoteTarget, change: Change): Error {
  const reason = error instanceof CloudflareError ? error.reason : error.message;
  const failure = (advice: string) =>
    new Error(`${target.env} ${target.name} database: ${advice}`, { cause: error });
  if (/no such (?:table|column)/.test(reason)) {
    return failure(`migrations are missing (${reason}): ${deployFirst(target)}`);
  }
  const isUnknown = change === "writes" && TRANSIENT.test(reason) && !NOT_BEGUN.test(reason);
  const unknown = "It is not known whether the change was made";
  return failure(isUnknown ? `${reason}. ${unknown}` : reason);
}

/** Returns whether an error, or one of its causes, says that a table is missing. */
export function isMissingTable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.message.includes("no such table") || isMissingTable(error.cause);
}

function deployFirst({ env }: RemoteTarget): string {
  return `run \`npm run deploy -- --env ${env}\` first`;
}
