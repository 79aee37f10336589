import { DatabaseSync } from "node:sqlite";
import { DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { type MigrationFile, readMigrations } from "../../support/migration-files.ts";

/** D1's limit on one statement, in bytes. */
const MAX_STATEMENT_BYTES = 100_000;

export interface QueryResult {
  readonly results: Record<string, unknown>[];
  readonly success: true;
  readonly meta: Readonly<Record<string, number>>;
}

interface State {
  readonly atMs: number;
  readonly bookmark: string;
  readonly content: Uint8Array;
}

/** A remote D1 database: what a query sends is one transaction, and integers come out as doubles. */
export class FakeD1 {
  readonly uuid: string;
  readonly name: string;
  readonly sqlite = new DatabaseSync(":memory:");
  /** The states that a bookmark was asked for, the oldest first. */
  readonly #states: State[] = [];

  constructor(uuid: string, name: string) {
    this.uuid = uuid;
    this.name = name;
  }

  /** The project's migrations of this database. */
  get migrations(): MigrationFile[] {
    const database = DATABASE_NAMES.find((name) => this.name.endsWith(`-${name}`));
    if (database === undefined) throw new Error(`${this.name} is none of the project's databases`);
    return readMigrations(database);
  }

  /** Applies the project's migrations as wrangler would, but for the last `without`. */
  migrate({ without = 0 } = {}): void {
    this.execute("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY, name TEXT, applied_at TEXT)");
    for (const { name, sql } of this.migrations.slice(0, this.migrations.length - without)) {
      this.execute(sql);
      this.execute(`INSERT INTO d1_migrations (name, applied_at) VALUES ('${name}', 'now')`);
    }
  }

  /** Runs every statement of `sql`, or none if one fails: then throws SQLite's error. */
  execute(sql: string): QueryResult[] {
    this.sqlite.exec("BEGIN");
    try {
      const results = [...this.statements(sql)];
      this.sqlite.exec("COMMIT");
      return results;
    } catch (error) {
      this.sqlite.exec("ROLLBACK");
      throw error;
    }
  }

  /**
   * Time Travel's bookmark of the present state, or of the last state at that time or before of which
   * one was asked for. Real bookmarks are of every state.
   */
  bookmark(at?: Date): string {
    if (at !== undefined) {
      const state = this.#states.findLast(({ atMs }) => atMs <= at.getTime());
      if (state === undefined) throw new Error(`no bookmark for ${at.toISOString()}`);
      return state.bookmark;
    }
    const part = (this.#states.length + 1).toString(16).padStart(8, "0");
    const bookmark = `${part}-00000000-00004e2f-0a83ea2fceebc654de0640c422be4653`;
    this.#states.push({ atMs: Date.now(), bookmark, content: this.sqlite.serialize() });
    return bookmark;
  }

  /** Goes back to the state of a bookmark. */
  restore(bookmark: string): void {
    const state = this.#states.find((known) => known.bookmark === bookmark);
    if (state === undefined) throw new Error(`bookmark ${bookmark} is not valid`);
    this.sqlite.deserialize(state.content);
  }

  /** D1's figures of a statement; only the size is a real one. */
  #meta(): QueryResult["meta"] {
    const [{ bytes }] = this.sqlite
      .prepare("SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size")
      .all() as [{ bytes: number }];
    return { duration: 0.1, rows_read: 0, rows_written: 0, changes: 0, size_after: bytes };
  }

  private *statements(sql: string): Generator<QueryResult> {
    let rest = sql;
    while (/[^\s;]/.test(rest.replace(/--.*/g, ""))) {
      const statement = this.sqlite.prepare(rest);
      // SQLite itself says where the first statement ends.
      const text = statement.sourceSQL;
      if (Buffer.byteLength(text) > MAX_STATEMENT_BYTES)
        throw new Error("statement too long: SQLITE_TOOBIG");
      if (/^\s*(begin|commit|rollback|savepoint)\b/i.test(text)) {
        throw new Error("cannot start a transaction within a transaction: SQLITE_ERROR");
      }
      statement.setReadBigInts(true);
      yield { results: statement.all().map(asDoubles), success: true, meta: this.#meta() };
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
