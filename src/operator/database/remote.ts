import { randomUUID } from "node:crypto";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SQLWrapper } from "drizzle-orm";
import { runWrangler } from "../wrangler.ts";
import { BINDINGS, ormOver, type Statement, type StoreDatabase, toStatement } from "./database.ts";
import { inlineParameters } from "./inline-parameters.ts";
import {
  type Change,
  connect,
  type D1Query,
  type RemoteTarget,
  retrying,
  sendOnce,
  sendQuery,
} from "./d1-api.ts";
import { MIGRATIONS_TABLE, readMigrations } from "./migrations.ts";

/** D1's limit for an SQL statement, not counting its parameters. */
const MAX_STATEMENT_BYTES = 100_000;
/** The end of every SQL statement. The line break ends a comment on the statement's last line. */
const END = "\n;";
/**
 * A transaction of up to this many bytes and statements is sent as one query, which D1 aborts after
 * 30 seconds. D1 imports a larger transaction as a file, in which each statement has 30 seconds.
 */
const MAX_QUERY_BYTES = 65_536;
const MAX_QUERY_STATEMENTS = 9;

/**
 * Opens the database of a deployed environment. Its methods retry transient failures, and throw an
 * Error for the operator if the database or a migration is missing, or nobody is logged in.
 */
export async function openRemoteDatabase(target: RemoteTarget): Promise<StoreDatabase> {
  let connecting: ReturnType<typeof connect> | undefined;
  const send = async (query: D1Query, change: Change) =>
    sendQuery(await (connecting ??= connect(target)), change, query);
  const run = (statement: Statement) => {
    const change = /^\s*select\b/i.test(statement.sql) ? "reads" : "writes";
    return send({ sql: toText(statement) }, change);
  };
  return {
    orm: ormOver(run),
    all: async <Row>(query: SQLWrapper) => (await run(toStatement(query))) as Row[],
    transaction: async (statements) => {
      if (statements.length === 0) return;
      const sql = statements.map((query) => toText(toStatement(query))).join("");
      const isSmall =
        statements.length <= MAX_QUERY_STATEMENTS && Buffer.byteLength(sql) <= MAX_QUERY_BYTES;
      await (isSmall ? send({ sql }, "writes") : importFile(target, sql));
    },
    runIdempotent: async <Row>(query: SQLWrapper) => {
      const { sql, params: values } = toStatement(query);
      // The API accepts parameters only as texts. SQLite converts the texts for numeric columns.
      const params = values.map((value) =>
        value === null ? null : String(value as string | number),
      );
      return (await send({ sql, params }, "stores once")) as Row[];
    },
    close: async () => {},
  };
}

function toText(statement: Statement): string {
  const sql = inlineParameters(statement) + END;
  const bytes = Buffer.byteLength(sql);
  if (bytes <= MAX_STATEMENT_BYTES) return sql;
  throw new RangeError(`a statement of ${bytes} bytes: D1 takes at most ${MAX_STATEMENT_BYTES}`);
}

/** Runs `sql` in one transaction by importing a file. D1 runs no other query meanwhile. */
async function importFile(target: RemoteTarget, sql: string): Promise<void> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "store-orders-"));
  const file = join(folder.path, "transaction.sql");
  // D1 skips a file that it has imported before. A random statement makes every file different.
  await writeFile(file, `SELECT '${randomUUID()}'${END}${sql}`);
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
  const database = await connect(target);
  const readApplied = async () => {
    const rows = await sendQuery(database, "reads", { sql: "SELECT name FROM d1_migrations" });
    return new Set(rows.map((row) => Object.values(row)[0]));
  };
  await sendQuery(database, "stores once", { sql: MIGRATIONS_TABLE });
  const applied = await readApplied();
  for (const { name, sql } of readMigrations(target.name)) {
    if (applied.has(name)) continue;
    const record = `INSERT INTO d1_migrations (name) VALUES ('${name}')`;
    const failure = await sendOnce(database, { sql: `${sql}\n;${record}` }).then(
      () => new Error(`Cloudflare reported success, but the migration ${name} is not recorded`),
      (error: Error) => error,
    );
    if (!(await readApplied()).has(name)) throw failure;
  }
}
