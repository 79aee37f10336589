import { retry } from "../retry.ts";
import { z } from "zod";
import { CloudflareApi, CloudflareError, HUNG } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import { readSettings } from "../settings.ts";
import type { Statement } from "../../store/database.ts";
import type { DatabaseName } from "../../schema/databases.ts";

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

/** Whether a call may happen twice: a read, or an idempotent write, but no other write. */
export type Effect = "repeatable" | "once";

/** Matches transient failures that happen before D1 begins to run a statement. */
const NOT_BEGUN = /D1 DB is overloaded|while starting up D1 DB storage|\[code: 971\]|\(HTTP 429\)/;
/** Matches other transient failures of the network and Cloudflare, as D1 documents them. */
const LOST =
  /no answer|malformed answer|fetch failed|Network connection lost|caused object to be reset|D1 DB reset because its code was updated|\(HTTP 5\d\d\)/;

/** After pauses of together some 20 seconds, so that a short failure does not end an import. */
const PATIENCE = { retries: 6, minTimeout: 500, maxTimeout: 8_000, randomize: true };

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

/** Finds a database of the account by its name; `undefined` if no database has this name. */
export async function findDatabase(api: CloudflareApi, name: string) {
  const path = `${api.account}/d1/database?name=${encodeURIComponent(name)}&page=1&per_page=100`;
  return (await api.call(path, databasesSchema)).find((database) => database.name === name);
}

const deployFirst = ({ env }: RemoteTarget) => `run \`npm run deploy -- --env ${env}\` first`;

/** @throws an Error for the operator if nobody is logged in or the database does not exist. */
export function connect(target: RemoteTarget): Promise<Connection> {
  return retrying(target, "repeatable", async () => {
    const { accountId, databases } = await readSettings(target.env);
    const api = await CloudflareApi.open(accountId);
    const found = await findDatabase(api, databases[target.name]);
    if (found === undefined) {
      const account = await api.describeAccount();
      throw new Error(
        `there is none yet in the account ${account}: choose another account (account_id in ` +
          `wrangler.toml, CLOUDFLARE_ACCOUNT_ID), or ${deployFirst(target)}`,
      );
    }
    return { target, api, path: `${api.account}/d1/database/${found.uuid}` };
  });
}

/** Sends statements, which D1 runs in one transaction, as `retrying` does. Returns the rows of each. */
export function sendQuery(
  { target, api, path }: Connection,
  effect: Effect,
  body: { readonly sql: string } | { readonly batch: readonly Statement[] },
): Promise<unknown[][][]> {
  return retrying(target, effect, async () => {
    const results = await api.call(`${path}/raw`, resultsSchema, { method: "POST", body });
    return results.map((each) => each.results.rows);
  });
}

/**
 * Retries a call after transient failures; a call that may happen once only if it did not begin.
 *
 * @throws an Error for the operator that says what failed and, if known, what to do next.
 */
export async function retrying<T>(target: RemoteTarget, effect: Effect, work: () => Promise<T>) {
  const shouldRetry = ({ error: { message } }: { readonly error: Error }) =>
    NOT_BEGUN.test(message) || (effect === "repeatable" && LOST.test(message));
  try {
    return await retry(work, { ...PATIENCE, shouldRetry });
  } catch (cause) {
    const reason = cause instanceof CloudflareError ? cause.reason : (cause as Error).message;
    const isLost = LOST.test(reason) || reason === HUNG;
    const isUnknown = effect === "once" && isLost && !NOT_BEGUN.test(reason);
    const said = /no such (?:table|column)/.test(reason)
      ? `migrations are missing (${reason}): ${deployFirst(target)}`
      : `${reason}${isUnknown ? ". It is not known whether the change was made" : ""}`;
    throw new Error(`${target.env} ${target.name} database: ${said}`, { cause });
  }
}
