import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import pRetry from "p-retry";
import { runWrangler } from "../wrangler.ts";
import { BINDINGS, type Statement, type StoreDatabase } from "./database.ts";
import { inlineParameters } from "./inline-parameters.ts";
import { describeFailure, mayRetry, type RemoteTarget } from "./remote-failure.ts";

/** D1's limit on one statement. Linux takes more in one argument: 131,071 bytes. */
const MAX_STATEMENT_BYTES = 100_000;
/** The line end closes a comment at the statement's end. */
const END = "\n;";
/**
 * Up to this many bytes and statements, a transaction is one query, which D1 has to answer within
 * 30 seconds. A larger transaction is a file that D1 imports, with 30 seconds for each statement.
 */
const MAX_QUERY_BYTES = 65_536;
const MAX_QUERY_STATEMENTS = 8;
const RETRIES = 4;

/**
 * Opens a remote database through `wrangler d1 execute --remote`, which brings its
 * own login. Each query costs a second or more, so many statements belong in one `transaction`.
 *
 * Queries throw an Error for the operator: no such database yet, migrations missing, not logged in,
 * or SQLite's message. Reads are repeated after a transient failure, writes only if they never
 * began.
 */
export async function openRemoteDatabase(target: RemoteTarget): Promise<StoreDatabase> {
  return {
    orm: drizzle(async (sql, params, method) => {
      const rows = await query(target, toSql({ sql, params }));
      const values = rows.map((row) => Object.values(row));
      // For `get` drizzle expects the row itself, or nothing.
      return { rows: method === "get" ? (values[0] as unknown[]) : values };
    }),
    transaction: async (statements) => {
      if (statements.length > 0) await transact(target, statements.map(toSql));
    },
    close: async () => {},
  };
}

function toSql(statement: Statement): string {
  const sql = inlineParameters(statement) + END;
  const bytes = Buffer.byteLength(sql);
  if (bytes <= MAX_STATEMENT_BYTES) return sql;
  throw new RangeError(`a statement of ${bytes} bytes: D1 takes at most ${MAX_STATEMENT_BYTES}`);
}

async function query(target: RemoteTarget, sql: string): Promise<object[]> {
  const change = /^\s*select\b/i.test(sql) ? "reads" : "writes";
  const stdout = await execute(target, `--command=${sql}`, change);
  const [result] = JSON.parse(stdout) as { results: object[] }[];
  return result?.results ?? [];
}

/** D1 runs the statements of one query, and those of one imported file, as one transaction. */
async function transact(target: RemoteTarget, statements: string[]): Promise<void> {
  const sql = statements.join("");
  if (statements.length <= MAX_QUERY_STATEMENTS && Buffer.byteLength(sql) <= MAX_QUERY_BYTES) {
    await execute(target, `--command=${sql}`, "writes");
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), "store-orders-"));
  try {
    const file = join(folder, "transaction.sql");
    // D1 skips a file whose hash it knows, so a random statement makes this file a new one.
    await writeFile(file, `SELECT '${randomUUID()}'${END}${sql}`);
    await execute(target, `--file=${file}`, "writes");
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function execute(
  target: RemoteTarget,
  input: string,
  change: "reads" | "writes",
): Promise<string> {
  const database = [BINDINGS[target.name], "--remote", "--env", target.environment];
  const args = ["d1", "execute", ...database, "--json", "--yes", input];
  try {
    const { stdout } = await pRetry(() => runWrangler(args), {
      retries: RETRIES,
      minTimeout: 500,
      randomize: true,
      shouldRetry: ({ error }) => mayRetry(error, change),
    });
    return stdout;
  } catch (error) {
    throw describeFailure(error as Error, target, change);
  }
}
