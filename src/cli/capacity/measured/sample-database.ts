import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import type { Statement } from "../../database/database.ts";
import { PROJECT_ROOT } from "../../wrangler.ts";

const MIGRATIONS = join(PROJECT_ROOT, "migrations");

/** A database in memory with the service's schema, in the SQLite that Node has: pages are as large as D1's. */
export class SampleDatabase {
  readonly #sqlite = new DatabaseSync(":memory:");
  readonly orm: BaseSQLiteDatabase<"async", unknown> = drizzle(async (sql, params) => ({
    rows: this.run({ sql, params }),
  }));

  constructor() {
    for (const name of readdirSync(MIGRATIONS).toSorted()) {
      if (name.endsWith(".sql")) this.#sqlite.exec(readFileSync(join(MIGRATIONS, name), "utf8"));
    }
  }

  /** Runs one statement. @returns the rows of its result, if it has any. */
  run({ sql, params }: { sql: string; params: readonly unknown[] }): unknown[][] {
    const rows = this.#sqlite.prepare(sql).all(...(params as SQLInputValue[]));
    return rows.map((row) => Object.values(row));
  }

  /** Runs them in one transaction. */
  transaction(statements: readonly Statement[]): void {
    this.#sqlite.exec("BEGIN");
    for (const statement of statements) this.run(statement);
    this.#sqlite.exec("COMMIT");
  }

  /** What the database takes on disk, without pages that have become free. */
  get bytes(): number {
    const pragma = (name: string) =>
      Number(this.run({ sql: `PRAGMA ${name}`, params: [] })[0]?.[0]);
    return pragma("page_size") * (pragma("page_count") - pragma("freelist_count"));
  }

  close(): void {
    this.#sqlite.close();
  }
}
