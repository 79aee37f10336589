import { z } from "zod";
import { CloudflareApi } from "../cloudflare-api.ts";
import { readSettings } from "../settings.ts";
import { deployFirst, type RemoteTarget } from "./remote-failure.ts";

/** A D1 database of the Cloudflare account. */
export interface FoundDatabase {
  readonly uuid: string;
  /** The jurisdiction that the database never leaves; `null` if it has none. */
  readonly jurisdiction: string | null;
}

/** The API of one database. */
export interface D1Database {
  readonly api: CloudflareApi;
  /** The path of the database in the API. */
  readonly path: string;
}

/**
 * The body of a request to D1's query API. If `params` is set, `sql` must be a single statement.
 */
export interface D1Query {
  readonly sql: string;
  readonly params?: readonly (string | null)[];
}

const jurisdiction = z.nullable(z.string()).default(null);
const databasesSchema = z.array(z.object({ name: z.string(), uuid: z.string(), jurisdiction }));
const resultsSchema = z.array(z.object({ results: z.array(z.record(z.string(), z.unknown())) }));

/** Finds a database by its name; `undefined` if no database has this name. */
export async function findDatabase(
  api: CloudflareApi,
  name: string,
): Promise<FoundDatabase | undefined> {
  const path = `${api.account}/d1/database?name=${encodeURIComponent(name)}&page=1&per_page=100`;
  return (await api.call(path, databasesSchema)).find((database) => database.name === name);
}

/**
 * Logs in and finds the database of a deployed environment.
 *
 * @throws an Error for the operator if the operator is not logged in or the database does not
 *   exist.
 */
export async function connect({ environment, name }: RemoteTarget): Promise<D1Database> {
  const api = await CloudflareApi.open();
  const { databases } = await readSettings(environment);
  const found = await findDatabase(api, databases[name]);
  if (found === undefined) throw new Error(`there is none yet: ${deployFirst(environment)}`);
  return { api, path: `${api.account}/d1/database/${found.uuid}` };
}

/**
 * Sends a query. D1 runs all statements of the query in one transaction.
 *
 * @returns the rows of the first statement.
 * @throws {CloudflareError} if Cloudflare refuses the query or does not respond.
 */
export async function sendQuery({ api, path }: D1Database, body: D1Query): Promise<object[]> {
  const [first] = await api.call(`${path}/query`, resultsSchema, { method: "POST", body });
  return first?.results ?? [];
}

/**
 * Finds the bookmark of a database's state in D1 Time Travel.
 *
 * @param at the time of the state; by default the present.
 */
export async function findBookmark({ api, path }: D1Database, at?: Date): Promise<string> {
  const query = at === undefined ? "" : `?timestamp=${at.toISOString()}`;
  const schema = z.object({ bookmark: z.string() });
  return (await api.call(`${path}/time_travel/bookmark${query}`, schema)).bookmark;
}

/** The bookmarks of a database after and before a restoration. */
export interface Restoration {
  readonly bookmark: string;
  readonly previousBookmark: string;
}

/** Restores a whole database to the state of a bookmark. D1 cancels all queries that are running. */
export async function restoreBookmark(
  { api, path }: D1Database,
  bookmark: string,
): Promise<Restoration> {
  const schema = z.object({ bookmark: z.string(), previous_bookmark: z.string() });
  const query = `?bookmark=${encodeURIComponent(bookmark)}`;
  const method = "POST";
  const restored = await api.call(`${path}/time_travel/restore${query}`, schema, { method });
  return { bookmark: restored.bookmark, previousBookmark: restored.previous_bookmark };
}
