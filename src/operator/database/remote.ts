import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import pRetry from "p-retry";
import { runWrangler } from "../wrangler.ts";
import { BINDINGS, type Statement, type StoreDatabase } from "./database.ts";
import { inlineParameters } from "./inline-parameters.ts";
import { connect, sendQuery } from "./d1-api.ts";
import { type Change, describeFailure, mayRetry, type RemoteTarget } from "./remote-failure.ts";

/** D1's limit on one statement, without its parameters. */
const MAX_STATEMENT_BYTES = 100_000;
/** The line end closes a comment at the statement's end. */
const END = "\n;";
/**
 * Up to this many bytes and statements, a transaction is one query, which D1 has to answer within
 * 30 seconds. A larger transaction is a file that D1 imports, with 30 seconds for each statement.
 */
const MAX_QUERY_BYTES = 65_536;
const MAX_QUERY_STATEMENTS = 9;
const RETRIES = 4;
/** Half a minute to a minute, for what an operator would otherwise have to begin again. */
const PATIENT_RETRIES = 8;
const LONGEST_PAUSE_MS = 8_000;

/**
 * Opens a remote database with wrangler's own login. Queries go to Cloudflare's API directly,
 * because each start of wrangler takes a second and its command line takes 128 KB. A large
 * transaction goes through `wrangler d1 execute --file`.
 *
 * Queries throw an Error for the operator: no such database yet, migrations missing, not logged in,
 * or SQLite's message. Reads, and what is stored once, are repeated after a transient failure;
 * writes only if they never began.
 */
export async function openRemoteDatabase(target: RemoteTarget): Promise<StoreDatabase> {
  let connecting: ReturnType<typeof connect> | undefined;
  const send = async (query: Parameters<typeof sendQuery>[1], change: Change) => {
    const connection = await (connecting ??= retrying(target, "reads", () => connect(target)));
    return retrying(target, change, () => sendQuery(connection, query));
  };
  return {
    orm: drizzle(async (sql, params, method) => {
      const change = /^\s*select\b/i.test(sql) ? "reads" : "writes";
      const rows = await send({ sql: toSql({ sql, params }) }, change);
      const values = rows.map((row) => Object.values(row));
      // For `get` drizzle expects the row itself, or nothing.
      return { rows: method === "get" ? (values[0] as unknown[]) : values };
    }),
    transaction: async (statements) => {
      if (statements.length === 0) return;
      const sql = statements.map(toSql).join("");
      const isSmall =
        statements.length <= MAX_QUERY_STATEMENTS && Buffer.byteLength(sql) <= MAX_QUERY_BYTES;
      await (isSmall ? send({ sql }, "writes") : importFile(target, sql));
    },
    storeOnce: async ({ sql, params }) => {
      // The API documents texts only. SQLite converts them for columns of numbers.
      const texts = params.map((value) => (value === null ? null : String(value)));
      await send({ sql, params: texts }, "stores once");
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

/** D1 runs the statements of an imported file as one transaction and answers nothing else then. */
async function importFile(target: RemoteTarget, sql: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-"));
  try {
    const file = join(folder, "transaction.sql");
    // D1 skips a file whose hash it knows, so a random statement makes this file a new one.
    await writeFile(file, `SELECT '${randomUUID()}'${END}${sql}`);
    const database = [BINDINGS[target.name], "--remote", "--env", target.environment];
    const args = ["d1", "execute", ...database, "--json", "--yes", `--file=${file}`];
    await retrying(target, "writes", () => runWrangler(args));
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function retrying<T>(
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
      shouldRetry: ({ error }) => mayRetry(error, change),
    });
  } catch (error) {
    throw describeFailure(error as Error, target, change);
  }
}
