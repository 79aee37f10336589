import { randomUUID } from "node:crypto";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { RemoteEnvironment } from "../arguments.ts";
import { type CloudflareApi, HUNG, logIn } from "../cloudflare-api.ts";
import { retry } from "../retry.ts";
import { BINDINGS, type DatabaseName } from "../../schema/databases.ts";
import { readSettings } from "../settings.ts";
import { ormOver, type Statement, type StoreDatabase, toStatement } from "../../store/database.ts";
import { runWrangler } from "../wrangler.ts";
import { MIGRATIONS_TABLE, readMigrations } from "./migrations.ts";

type RemoteTarget = Readonly<{ env: RemoteEnvironment; name: DatabaseName }>;
/** `path`: that of the database in the account. */
type Connection = Readonly<{ target: RemoteTarget; api: CloudflareApi; path: string }>;

/** Whether a call may happen twice: a read, or an idempotent write, but no other write. */
type Effect = "repeatable" | "once";

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
  const path = `/d1/database?name=${encodeURIComponent(name)}&page=1&per_page=100`;
  return (await api.call(path, databasesSchema)).find((database) => database.name === name);
}

const deployFirst = ({ env }: RemoteTarget) => `run \`npm run deploy -- --env ${env}\` first`;

/** @throws an Error for the operator if nobody is logged in or the database does not exist. */
function connect(target: RemoteTarget): Promise<Connection> {
  return retrying(target, "repeatable", async () => {
    const settings = await readSettings(target.env);
    const api = await logIn(settings);
    const found = await findDatabase(api, settings.databases[target.name]);
    if (found === undefined) {
      const account = await api.describeAccount();
      throw new Error(
        `there is none yet in the account ${account}: choose another account (account_id in ` +
          `wrangler.toml, CLOUDFLARE_ACCOUNT_ID), or ${deployFirst(target)}`,
      );
    }
    return { target, api, path: `/d1/database/${found.uuid}` };
  });
}

/** Sends statements, which D1 runs in one transaction, as `retrying` does. Returns the rows of each. */
function sendQuery(
  { target, api, path }: Connection,
  effect: Effect,
  body: { readonly sql: string } | { readonly batch: readonly Statement[] },
): Promise<unknown[][][]> {
  return retrying(target, effect, async () => {
    const results = await api.call(`${path}/raw`, resultsSchema, body);
    return results.map((each) => each.results.rows);
  });
}

/**
 * Retries a call after transient failures; a call that may happen once only if it did not begin.
 *
 * @throws an Error for the operator that says what failed and, if known, what to do next.
 */
async function retrying<T>(target: RemoteTarget, effect: Effect, work: () => Promise<T>) {
  const shouldRetry = ({ error: { message } }: { readonly error: Error }) =>
    NOT_BEGUN.test(message) || (effect === "repeatable" && LOST.test(message));
  try {
    return await retry(work, { ...PATIENCE, shouldRetry });
  } catch (cause) {
    const reason = (cause as Error).message.replace(/^Cloudflare, .*?: /, "");
    const isLost = LOST.test(reason) || reason === HUNG;
    const isUnknown = effect === "once" && isLost && !NOT_BEGUN.test(reason);
    const said = /no such (?:table|column)/.test(reason)
      ? `migrations are missing (${reason}): ${deployFirst(target)}`
      : `${reason}${isUnknown ? ". It is not known whether the change was made" : ""}`;
    throw new Error(`${target.env} ${target.name} database: ${said}`, { cause });
  }
}

const END = "\n;";

/** Matches statements that may run twice: reads, and inserts that skip what is there. */
const REPEATABLE = /^\s*\(*(?:select|with)\b|\bon conflict do nothing$/i;

/**
 * Opens the database of a deployed environment. Its methods retry transient failures, and throw an
 * Error for the operator if the database or a migration is missing, or nobody is logged in.
 */
export async function openRemoteDatabase(target: RemoteTarget): Promise<StoreDatabase> {
  let connecting: Promise<Connection> | undefined;
  const send = async (batch: readonly Statement[], effect: Effect) =>
    sendQuery(await (connecting ??= connect(target)), effect, { batch });
  return {
    orm: ormOver(async (one) => {
      const [rows = []] = await send([one], REPEATABLE.test(one.sql) ? "repeatable" : "once");
      return rows;
    }),
    transaction: async (queries, { isLong = false } = {}) => {
      const statements = queries.map(toStatement);
      if (!isLong) return statements.length === 0 ? [] : send(statements, "once");
      await importFile(await (connecting ??= connect(target)), statements);
      return [];
    },
    close: async () => {},
  };
}

/**
 * Runs statements in one transaction by importing a file: a batch must end within 30 seconds, but in
 * a file each statement may take as long. D1 runs no other query meanwhile.
 */
async function importFile(
  { api, target }: Connection,
  statements: readonly Statement[],
): Promise<void> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "store-orders-"));
  const file = join(folder.path, "transaction.sql");
  // D1 skips a file that it has imported before. A random statement makes every file different.
  const all = [`SELECT '${randomUUID()}'`, ...statements.map(({ sql }) => sql)];
  await writeFile(file, all.map((sql) => sql + END).join(""));
  const database = [BINDINGS[target.name], "--remote", "--env", target.env];
  const args = ["d1", "execute", ...database, "--yes", `--file=${file}`];
  await retrying(target, "once", () => runWrangler(args, { CLOUDFLARE_ACCOUNT_ID: api.accountId }));
}

/**
 * Applies the pending migrations of a deployed database, each in its own transaction. Then checks
 * that it is recorded, because Cloudflare's response can be lost.
 *
 * @throws an Error for the operator if a migration is not recorded afterwards.
 */
export async function applyMigrations(target: RemoteTarget): Promise<void> {
  const connection = await connect(target);
  const send = (sql: string) => sendQuery(connection, "repeatable", { sql });
  const readApplied = async () =>
    new Set((await send("SELECT name FROM d1_migrations"))[0]?.map(([name]) => name));
  await send(MIGRATIONS_TABLE);
  const applied = await readApplied();
  for (const { name, sql } of readMigrations(target.name)) {
    if (applied.has(name)) continue;
    const record = `INSERT INTO d1_migrations (name) VALUES ('${name}')`;
    const failure = await sendQuery(connection, "once", { sql: `${sql}${END}${record}` }).then(
      () => new Error(`Cloudflare reported success, but the migration ${name} is not recorded`),
      (error: Error) => error,
    );
    if (!(await readApplied()).has(name)) throw failure;
  }
}
