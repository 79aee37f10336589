import { randomUUID } from "node:crypto";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runWrangler } from "../wrangler.ts";
import type { Connection, Effect, RemoteTarget } from "./d1-api.ts";
import { connect, retrying, sendQuery } from "./d1-api.ts";
import { ormOver, type Statement, type StoreDatabase, toStatement } from "../../store/database.ts";
import { MIGRATIONS_TABLE, readMigrations } from "./migrations.ts";
import { BINDINGS } from "../../schema/databases.ts";

/** The end of an SQL statement. The line break ends a comment on the statement's last line. */
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
  const args = ["d1", "execute", ...database, "--json", "--yes", `--file=${file}`];
  await retrying(target, "once", () => runWrangler(args, api.wranglerAccount));
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
