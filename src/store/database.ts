import { is, Param, sql, type SQLWrapper } from "drizzle-orm";
import { SQLiteAsyncDialect } from "drizzle-orm/sqlite-core";
import {
  type RemoteCallback,
  SqliteRemoteDatabase,
  SQLiteRemoteSession,
} from "drizzle-orm/sqlite-proxy";

/** A drizzle client, whose transactions `StoreDatabase.transaction` replaces. */
export type Orm = Omit<SqliteRemoteDatabase, "transaction" | "batch">;

/**
 * The database's present time in Unix milliseconds. The clock of the operator's machine can be wrong,
 * and the service compares times of the database with its own.
 */
export const DATABASE_TIME = sql<Date>`CAST(unixepoch('subsec') * 1000 AS INTEGER)`;

/** Reads `DATABASE_TIME`. */
export async function databaseTime(orm: Orm): Promise<Date> {
  const [row] = await orm.select({ ms: sql<number>`${DATABASE_TIME}` }).from(sql`(SELECT 1)`);
  return new Date(row?.ms ?? NaN);
}

/** The rows of a result, each an array of its columns. */
export type Rows = readonly (readonly unknown[])[];

/** A database of a local store or of a deployed environment. */
export interface StoreDatabase {
  readonly orm: Orm;
  /**
   * Runs all statements in order, in one transaction.
   *
   * @param options `isLong`: together, the statements may run for more than 30 seconds. They then
   *   must not contain text parameters, and no rows are returned.
   * @returns the rows of each statement.
   */
  transaction(
    statements: readonly SQLWrapper[],
    options?: { isLong?: boolean },
  ): Promise<readonly Rows[]>;
}

/** One SQL statement, with a text for each `?`. */
export interface Statement {
  readonly sql: string;
  readonly params: readonly string[];
}

/**
 * Writes numbers and NULL into the SQL and binds only texts. D1's HTTP API binds texts only, and
 * SQLite's `min(1, '2')`, for example, does not convert a text.
 */
class Dialect extends SQLiteAsyncDialect {
  override escapeParam(_index: number, value?: unknown): string {
    if (typeof value === "string") return "?";
    if (value === null) return "NULL";
    // Without the parentheses, `1 -?` with the value -1 would become `1 --1`, a comment.
    if (typeof value === "number" && Number.isFinite(value)) return `(${value})`;
    throw new TypeError(`no SQL literal for a value of type ${typeof value}`);
  }
}

/** Throws the errors of the database itself. Drizzle's own errors contain the SQL and parameters. */
class Session extends SQLiteRemoteSession<Record<string, never>, Record<string, never>> {
  override prepareQuery(...args: Parameters<SQLiteRemoteSession<never, never>["prepareQuery"]>) {
    const queryWithCache = (_sql: string, _params: unknown, query: () => unknown) => query();
    return Object.assign(super.prepareQuery(...args), { queryWithCache }) as never;
  }
}

const literals = new Dialect();

export function toStatement(query: SQLWrapper): Statement {
  const { sql: text, params } = literals.sqlToQuery(query.getSQL());
  return { sql: text, params: texts(params) };
}

function texts(params: readonly unknown[]): string[] {
  return params
    .map((param) => (is(param, Param) ? param.encoder.mapToDriverValue(param.value) : param))
    .filter((param) => typeof param === "string");
}

/** Returns a drizzle client that runs each statement with `run`, which returns rows as arrays. */
export function ormOver(
  run: (statement: Statement) => Promise<unknown[][]>,
  dialect: SQLiteAsyncDialect = literals,
): Orm {
  const callback: RemoteCallback = async (text, params, method) => {
    const rows = await run({ sql: text, params: texts(params) });
    // For `get`, drizzle expects the first row instead of an array of rows.
    return { rows: method === "get" ? (rows[0] as unknown[]) : rows };
  };
  const session = new Session(callback, dialect, undefined);
  return new SqliteRemoteDatabase("async", dialect, session, undefined);
}
