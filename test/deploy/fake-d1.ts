import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** D1's limit on one statement, in bytes. */
const MAX_STATEMENT_BYTES = 100_000;
const MIGRATIONS = join(import.meta.dirname, "../../migrations");

export interface QueryResult {
  readonly results: Record<string, unknown>[];
  readonly success: true;
  readonly meta: Readonly<Record<string, number>>;
}

/** A remote D1 database: what a query sends is one transaction, and integers come out as doubles. */
export class FakeD1 {
  readonly uuid: string;
  readonly name: string;
  readonly sqlite = new DatabaseSync(":memory:");

  constructor(uuid: string, name: string) {
    this.uuid = uuid;
    this.name = name;
  }

  /** Applies the project's migrations as wrangler would. */
  migrate(): void {
    this.execute("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY, name TEXT, applied_at TEXT)");
    for (const name of readdirSync(MIGRATIONS).filter((file) => file.endsWith(".sql"))) {
      this.execute(readFileSync(join(MIGRATIONS, name), "utf8"));
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
      yield { results: statement.all().map(asDoubles), success: true, meta: META };
      rest = rest.slice(text.length);
    }
  }
}

const META = { duration: 0.1, rows_read: 0, rows_written: 0, changes: 0, size_after: 4096 };

function asDoubles(row: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === "bigint" ? Number(value) : value,
    ]),
  );
}
