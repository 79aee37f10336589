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

/** After pauses of together some 20 seconds, so that a short failure does not end an import. */
const RETRIES = 6;
const LONGEST_PAUSE_MS = 8_000;

/** `jurisdiction`: where the database stays forever; `null` if it has none. */
const databasesSchema = z.array(
  z.object({
    name: z.string(),
    uuid: z.string(),
    jurisdiction: z.nullable(z.string()).default(null),
  }),
);
const rowsSchema = z.object({ rows: z.array(z.array(z.unknown())) });
const resultsSchema = z.array(z.object({ results: rowsSchema }));
const bookmarkSchema = z.object({ bookmark: z.string() });

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
 * Sends SQL statements, which D1 runs in one transaction. Returns the first statement's rows.
 *
 * @throws {CloudflareError} if Cloudflare refuses the query or does not respond.
 */
export async function sendOnce({ api, path }: Connection, body: D1Query): Promise<unknown[][]> {
  const [first] = await api.call(`${path}/raw`, resultsSchema, { method: "POST", body });
  return first?.results.rows ?? [];
}

/** Sends a query as `sendOnce` does, and retries it as `retrying` does. */
export function sendQuery(connection: Connection, change: Change, query: D1Query) {
  return retrying(connection.target, change, () => sendOnce(connection, query));
}

/** Finds the D1 Time Travel bookmark of a database's state at a time, by default now. */
export async function findBookmark({ target, api, path }: Connection, at?: Date): Promise<string> {
  const query = at === undefined ? "" : `?timestamp=${at.toISOString()}`;
  const find = () => api.call(`${path}/time_travel/bookmark${query}`, bookmarkSchema);
  return (await retrying(target, "reads", find)).bookmark;
}

/** Restores a whole database to the state of a bookmark. D1 cancels all running queries. */
export async function restoreBookmark(
  { target, api, path }: Connection,
  bookmark: string,
): Promise<void> {
  const url = `${path}/time_travel/restore?bookmark=${encodeURIComponent(bookmark)}`;
  const restore = () => api.call(url, bookmarkSchema, { method: "POST" });
  await retrying(target, "stores once", restore);
}

/**
 * Retries a call after transient failures. Retries `writes` only if D1 did not begin to run them.
 *
 * @throws an Error for the operator that says what failed and, if known, what to do next.
 */
export async function retrying<T>(
  target: RemoteTarget,
  change: Change,
  attempt: () => Promise<T>,
): Promise<T> {
  const repeatable = change === "writes" ? NOT_BEGUN : TRANSIENT;
  try {
    return await pRetry(attempt, {
      retries: RETRIES,
      minTimeout: 500,
      maxTimeout: LONGEST_PAUSE_MS,
      randomize: true,
      shouldRetry: ({ error }) => repeatable.test(error.message),
    });
  } catch (cause) {
    const reason = cause instanceof CloudflareError ? cause.reason : (cause as Error).message;
    const isMissing = /no such (?:table|column)/.test(reason);
    const isUnknown = TRANSIENT.test(reason) && !repeatable.test(reason);
    const said = isMissing
      ? `migrations are missing (${reason}): ${deployFirst(target)}`
      : `${reason}${isUnknown ? ". It is not known whether the change was made" : ""}`;
    throw new Error(`${target.env} ${target.name} database: ${said}`, { cause });
  }
}

function deployFirst({ env }: RemoteTarget): string {
  return `run \`npm run deploy -- --env ${env}\` first`;
}
