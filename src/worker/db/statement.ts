import { fillPlaceholders, is, Placeholder, type SQL, type SQLWrapper } from "drizzle-orm";
import {
  type PreparedQueryConfig,
  SQLiteAsyncDialect,
  type SQLitePreparedQuery,
} from "drizzle-orm/sqlite-core";
import { ormOver } from "../../store/database.ts";

/** The method of a D1 database or a D1 session that runs statements. */
export type StatementSource = Pick<D1DatabaseSession, "prepare">;

type Values = Readonly<Record<string, unknown>>;

/** A query of the builder: `select`, `insert`, `update` or `delete … returning`. */
interface BuiltQuery<T extends PreparedQueryConfig> extends SQLWrapper {
  prepare(): SQLitePreparedQuery<T>;
}

type RowOf<T extends PreparedQueryConfig> = T["all"] extends readonly (infer Row)[] ? Row : never;

/** Builds queries and runs none: a `Statement` is bound to the database of a request. */
export const db = ormOver(() => Promise.reject(), new SQLiteAsyncDialect());

/** The SQL of a query, with its parameters, and how the rows of its result are read. */
interface Compiled<Row> {
  readonly sql: string;
  readonly params: unknown[];
  readonly rows: (result: D1Result) => Row[];
}

/**
 * A query that drizzle compiles once in an isolate, when a request first needs it. Building a query
 * costs 100 times as much as binding it. Unlike drizzle's prepared queries, a statement belongs to no
 * database or session, fills its placeholders in `D1Database.batch` too, and keeps D1's `meta`.
 */
export class Statement<Row> {
  readonly #compile: () => Compiled<Row>;
  #compiled: Compiled<Row> | undefined;

  private constructor(compile: () => Compiled<Row>) {
    this.#compile = compile;
  }

  /** A query of the builder. Its columns must have distinct names. */
  static of<T extends PreparedQueryConfig>(query: () => BuiltQuery<T>): Statement<RowOf<T>> {
    return new Statement(() => {
      const built = query();
      const prepared = built.prepare();
      const rows = ({ results }: D1Result) => {
        const values = results.map((row) => Object.values(row as object));
        return prepared.mapResult({ rows: values }, true) as RowOf<T>[];
      };
      return { ...write(built), rows };
    });
  }

  /** A query that the builder cannot express. Its rows are what D1 returns. */
  static ofSql<Row>(query: () => SQL): Statement<Row> {
    return new Statement(() => ({ ...write(query()), rows: ({ results }) => results as Row[] }));
  }

  bind(source: StatementSource, values: Values = {}): D1PreparedStatement {
    const { sql, params } = this.#get();
    return source.prepare(sql).bind(...fillPlaceholders(params, values));
  }

  /** Returns the rows of a result of this statement, for example of one in a batch. */
  rows(result: D1Result): Row[] {
    return this.#get().rows(result);
  }

  async all(source: StatementSource, values?: Values): Promise<Row[]> {
    return this.rows(await this.bind(source, values).all());
  }

  #get(): Compiled<Row> {
    return (this.#compiled ??= this.#compile());
  }
}

/** Writes a query with numbered parameters: a placeholder that occurs twice is bound once. */
function write(query: SQLWrapper): { readonly sql: string; readonly params: unknown[] } {
  const params: unknown[] = [];
  const escapeParam = (_number: number, value?: unknown) => {
    const index = params.findIndex(
      (one) => is(value, Placeholder) && is(one, Placeholder) && one.name === value.name,
    );
    return `?${index === -1 ? params.push(value) : index + 1}`;
  };
  const dialect = Object.assign(new SQLiteAsyncDialect(), { escapeParam });
  return { sql: dialect.sqlToQuery(query.getSQL()).sql, params };
}
