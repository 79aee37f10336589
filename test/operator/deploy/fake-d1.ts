import { DatabaseSync } from "node:sqlite";
import { DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { type MigrationFile, readMigrations } from "../../support/migration-files.ts";

/** D1's limit on one statement, in bytes. */
const MAX_STATEMENT_BYTES = 100_000;
/** D1's limit on one value or row, in bytes. */
const MAX_ROW_BYTES = 2_000_000;

/** The metadata of a statement. The values are arbitrary, because no test reads them. */
const META = { duration: 0.1, rows_read: 0, rows_written: 0, changes: 0, size_after: 0 };

interface QueryResult {
  readonly results: Record<string, unknown>[];
  readonly success: true;
  readonly meta: typeof META;
}

interface State {
  readonly atMs: number;
  readonly bookmark: string;
  readonly content: Uint8Array;
}

/**
 * A fake of a remote D1 database. As in D1, all statements of a query are one transaction, and
 * integers in results are doubles.
 */
export class FakeD1 {
  readonly uuid: string;
  readonly name: string;
  /** The jurisdiction to which the database's location is restricted; `null` if unrestricted. */
  readonly jurisdiction: string | null;
  readonly sqlite = new DatabaseSync(":memory:");
  /** The saved states of the database, each with a bookmark, the oldest first. */
  readonly #states: State[] = [];

  constructor(uuid: string, name: string, jurisdiction: string | null = null) {
    this.uuid = uuid;
    this.name = name;
    this.jurisdiction = jurisdiction;
  }

  /** The project's migrations for this database. */
  get migrations(): MigrationFile[] {
    const database = DATABASE_NAMES.find((name) => this.name.endsWith(`-${name}`));
    if (database === undefined) throw new Error(`${this.name} is none of the project's databases`);
    return readMigrations(database);
  }

  /** Applies the project's migrations as wrangler would, except for the last `without`. */
  migrate({ without = 0 } = {}): void {
    this.execute("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY, name TEXT, applied_at TEXT)");
    for (const { name, sql } of this.migrations.slice(0, this.migrations.length - without)) {
      this.execute(sql);
      this.execute(`INSERT INTO d1_migrations (name, applied_at) VALUES ('${name}', 'now')`);
    }
  }

  /**
   * Runs the statements of `sql` in one transaction.
   *
   * @param params the parameters, if `sql` is a single statement.
   * @throws SQLite's error if a statement fails.
   */
  execute(sql: string, params: readonly string[] = []): QueryResult[] {
    if (params.join("").length > MAX_ROW_BYTES) {
      throw new Error("string or blob too big: SQLITE_TOOBIG");
    }
    this.sqlite.exec("BEGIN");
    try {
      const results = [...this.#runEach(sql, params)];
      this.sqlite.exec("COMMIT");
      return results;
    } catch (error) {
      this.sqlite.exec("ROLLBACK");
      throw error;
    }
  }

  /** Saves the current state and returns its bookmark. Real D1 has a bookmark of every state. */
  bookmark(): string {
    const part = (this.#states.length + 1).toString(16).padStart(8, "0");
    const bookmark = `${part}-00000000-00004e2f-0a83ea2fceebc654de0640c422be4653`;
    const atMs = Math.max(Date.now(), (this.#states.at(-1)?.atMs ?? 0) + 1);
    this.#states.push({ atMs, bookmark, content: this.sqlite.serialize() });
    return bookmark;
  }

  /** Returns the last bookmark at or before this time. */
  bookmarkAt(time: Date): string {
    const state = this.#states.findLast(({ atMs }) => atMs <= time.getTime());
    if (state === undefined) throw new Error(`no bookmark for ${time.toISOString()}`);
    return state.bookmark;
  }

  /**
   * Returns the time of a bookmark in ISO 8601. Each bookmark has a later time than the previous
   * one.
   */
  timeOf(bookmark: string): string {
    return new Date(this.#find(bookmark).atMs).toISOString();
  }

  /** Restores the state of a bookmark. */
  restore(bookmark: string): void {
    this.sqlite.deserialize(this.#find(bookmark).content);
  }

  #find(bookmark: string): State {
    const state = this.#states.find((known) => known.bookmark === bookmark);
    if (state === undefined) throw new Error(`bookmark ${bookmark} is not valid`);
    return state;
  }

  *#runEach(sql: string, params: readonly string[]): Generator<QueryResult> {
    let rest = sql;
    while (/[^\s;]/.test(rest.replace(/--.*/g, ""))) {
      const statement = this.sqlite.prepare(rest);
      // `prepare` compiles only the first statement in `rest`; `sourceSQL` is its text.
      const text = statement.sourceSQL;
      if (Buffer.byteLength(text) > MAX_STATEMENT_BYTES)
        throw new Error("statement too long: SQLITE_TOOBIG");
      if (/^\s*(begin|commit|rollback|savepoint)\b/i.test(text)) {
        throw new Error("cannot start a transaction within a transaction: SQLITE_ERROR");
      }
      statement.setReadBigInts(true);
      yield { results: statement.all(...params).map(asDoubles), success: true, meta: META };
      rest = rest.slice(text.length);
    }
  }
}

function asDoubles(row: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === "bigint" ? Number(value) : value,
    ]),
  );
}
