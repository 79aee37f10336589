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

/** Matches transient failures that happen before D1 begins to run a statement. */
const NOT_BEGUN = /D1 DB is overloaded|while starting up D1 DB storage|\[code: 971\]|\(HTTP 429\)/;
/** Matches other transient failures of the network and Cloudflare, as D1 documents them. */
const LOST =
  /no answer|malformed answer|fetch failed|Network connection lost|caused object to be reset|D1 DB reset because its code was updated|\(HTTP 5\d\d\)/;

/** After pauses of together some 20 seconds, so that a short failure does not end an import. */
const PATIENCE = { retries: 6, minTimeout: 500, maxTimeout: 8_000, randomize: true };

/** `jurisdiction`: where the database stays forever. */
const databasesSchema = z.array(
  z.object({ name: z.string(), uuid: z.string(), jurisdiction: z.string().nullish() }),
);
const rowsSchema = z.object({ rows: z.array(z.array(z.unknown())) });
const resultsSchema = z.array(z.object({ results: rowsSchema }));

/** Finds a database of the account by its name; `undefined` if no database has this name. */
export async function findDatabase(api: CloudflareApi, name: string) {
  const path = `/d1/database?name=${encodeURIComponent(name)}&page=1&per_page=100`;
  return (await api.call(path, databasesSchema)).find((database) => database.name === name);
}

const END = "\n;";

/** Matches statements that may run twice: reads, and inserts that skip what is there. */
const REPEATABLE = /^\s*\(*(?:select|with)\b|\bon conflict do nothing$/i;

/**
 * Opens the database of a deployed environment. Its methods connect at the first query, retry transient
 * failures, and throw an Error for the operator if the database or a migration is missing, or nobody is
 * logged in.
 */
export function openRemoteDatabase({ env, name }: RemoteTarget) {
  const deployFirst = `run \`npm run deploy -- --env ${env}\` first`;

  /** Retries a call after transient failures; one that must not happen twice only if it did not begin. */
  const retrying = async <T>(isRepeatable: boolean, work: () => Promise<T>): Promise<T> => {
    const shouldRetry = ({ error: { message } }: { readonly error: Error }) =>
      NOT_BEGUN.test(message) || (isRepeatable && LOST.test(message));
    try {
      return await retry(work, { ...PATIENCE, shouldRetry });
    } catch (cause) {
      const reason = (cause as Error).message.replace(/^Cloudflare, .*?: /, "");
      const isLost = LOST.test(reason) || reason === HUNG;
      const isUnknown = !isRepeatable && isLost && !NOT_BEGUN.test(reason);
      const said = /no such (?:table|column)/.test(reason)
        ? `migrations are missing (${reason}): ${deployFirst}`
        : `${reason}${isUnknown ? ". It is not known whether the change was made" : ""}`;
      throw new Error(`${env} ${name} database: ${said}`, { cause });
    }
  };

  const connect = async () => {
    const settings = await readSettings(env);
    const api = await logIn(settings);
    const found = await findDatabase(api, settings.databases[name]);
    if (found !== undefined) return { api, path: `/d1/database/${found.uuid}/raw` };
    throw new Error(
      `there is none yet in the account ${await api.describeAccount()}: choose another account ` +
        `(account_id in wrangler.toml, CLOUDFLARE_ACCOUNT_ID), or ${deployFirst}`,
    );
  };
  let connecting: ReturnType<typeof connect> | undefined;
  const connected = () => (connecting ??= retrying(true, connect));

  /** Sends statements, which D1 runs in one transaction. Returns the rows of each. */
  const query = async (
    isRepeatable: boolean,
    body: { readonly sql: string } | { readonly batch: readonly Statement[] },
  ) => {
    const { api, path } = await connected();
    return retrying(isRepeatable, async () => {
      const results = await api.call(path, resultsSchema, body);
      return results.map((each) => each.results.rows);
    });
  };

  const database: StoreDatabase = {
    orm: ormOver(async (one) => {
      const [rows = []] = await query(REPEATABLE.test(one.sql), { batch: [one] });
      return rows;
    }),
    transaction: async (queries, { isLong = false } = {}) => {
      const statements = queries.map(toStatement);
      if (statements.length === 0) return [];
      if (!isLong) return query(false, { batch: statements });
      // A batch must end within 30 seconds, but in a file each statement may take as long. D1 skips a
      // file that it has imported before. A random statement makes every file different.
      const all = [`SELECT '${randomUUID()}'`, ...statements.map(({ sql }) => sql)];
      await using folder = await mkdtempDisposable(join(tmpdir(), "store-orders-"));
      const file = join(folder.path, "transaction.sql");
      await writeFile(file, all.map((sql) => sql + END).join(""));
      const { api } = await connected();
      const on = [BINDINGS[name], "--remote", "--env", env];
      // Not with --json, which would write errors elsewhere.
      const args = ["d1", "execute", ...on, "--yes", `--file=${file}`];
      await retrying(false, () => runWrangler(args, { CLOUDFLARE_ACCOUNT_ID: api.accountId }));
      return [];
    },
  };
  return { ...database, query };
}

/**
 * Applies the pending migrations of a deployed database, each in its own transaction. Then checks
 * that it is recorded, because Cloudflare's response can be lost.
 *
 * @throws an Error for the operator if a migration is not recorded afterwards.
 */
export async function applyMigrations(target: RemoteTarget): Promise<void> {
  const { query } = openRemoteDatabase(target);
  const readApplied = async () => {
    const [rows = []] = await query(true, { sql: "SELECT name FROM d1_migrations" });
    return rows.map(([name]) => name);
  };
  await query(true, { sql: MIGRATIONS_TABLE });
  const applied = await readApplied();
  for (const { name, sql } of readMigrations(target.name)) {
    if (applied.includes(name)) continue;
    const record = `INSERT INTO d1_migrations (name) VALUES ('${name}')`;
    const failure = await query(false, { sql: `${sql}${END}${record}` }).then(
      () => new Error(`Cloudflare reported success, but the migration ${name} is not recorded`),
      (error: Error) => error,
    );
    if (!(await readApplied()).includes(name)) throw failure;
  }
}
