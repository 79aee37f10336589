import { randomUUID } from "node:crypto";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runWrangler } from "../wrangler.ts";
import {
  type Change,
  connect,
  type Connection,
  type RemoteTarget,
  retrying,
  sendOnce,
  sendQuery,
} from "./d1-api.ts";
import { BINDINGS, ormOver, type Statement, type StoreDatabase, toStatement } from "./database.ts";
import { MIGRATIONS_TABLE, readMigrations } from "./migrations.ts";

/** The end of an SQL statement. The line break ends a comment on the statement's last line. */
const END = "\n;";

/**
 * Opens the database of a deployed environment. Its methods retry transient failures, and throw an
 * Error for the operator if the database or a migration is missing, or nobody is logged in.
 */
export async function openRemoteDatabase(target: RemoteTarget): Promise<StoreDatabase> {
  let connecting: Promise<Connection> | undefined;
  const send = async (change: Change, batch: readonly Statement[]) =>
    sendQuery(await (connecting ??= connect(target)), change, { batch });
  return {
    orm: ormOver((statement) => send(effectOf(statement), [statement])),
    transaction: async (queries, { isLong = false } = {}) => {
      const statements = queries.map(toStatement);
      if (isLong) await importFile(target, statements);
      else if (statements.length > 0) await send("writes", statements);
    },
    close: async () => {},
  };
}

function effectOf({ sql }: Statement): Change {
  if (/^\s*\(*(?:select|with)\b/i.test(sql)) return "reads";
  return /\bon conflict do nothing$/i.test(sql) ? "stores once" : "writes";
}

/**
 * Runs statements in one transaction by importing a file: a batch must end within 30 seconds, but in
 * a file each statement may take as long. D1 runs no other query meanwhile.
 */
async function importFile(target: RemoteTarget, statements: readonly Statement[]): Promise<void> {
  if (statements.some(({ params }) => params.length > 0)) {
    throw new TypeError("a long transaction must not have text parameters");
  }
  await using folder = await mkdtempDisposable(join(tmpdir(), "store-orders-"));
  const file = join(folder.path, "transaction.sql");
  // D1 skips a file that it has imported before. A random statement makes every file different.
  const all = [`SELECT '${randomUUID()}'`, ...statements.map(({ sql }) => sql)];
  await writeFile(file, all.map((sql) => sql + END).join(""));
  const database = [BINDINGS[target.name], "--remote", "--env", target.env];
  const args = ["d1", "execute", ...database, "--json", "--yes", `--file=${file}`];
  await retrying(target, "writes", () => runWrangler(args));
}

/**
 * Applies the pending migrations of a deployed database, each in its own transaction. After each
 * migration, checks that it is recorded, because Cloudflare's response can be lost.
 *
 * @throws an Error for the operator if a migration is not recorded afterwards.
 */
export async function applyMigrations(target: RemoteTarget): Promise<void> {
  const connection = await connect(target);
  const send = (change: Change, sql: string) => sendQuery(connection, change, { sql });
  const readApplied = async () =>
    new Set((await send("reads", "SELECT name FROM d1_migrations")).map(([name]) => name));
  await send("stores once", MIGRATIONS_TABLE);
  const applied = await readApplied();
  for (const { name, sql } of readMigrations(target.name)) {
    if (applied.has(name)) continue;
    const record = `INSERT INTO d1_migrations (name) VALUES ('${name}')`;
    const failure = await sendOnce(connection, { sql: `${sql}${END}${record}` }).then(
      () => new Error(`Cloudflare reported success, but the migration ${name} is not recorded`),
      (error: Error) => error,
    );
    if (!(await readApplied()).has(name)) throw failure;
  }
}
