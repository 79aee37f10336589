import { ormOver, type Rows, type Statement, type StoreDatabase, toStatement } from "./database.ts";

/** Runs a query of a D1 database, perhaps several times if it only reads. */
type Run = <T>(query: () => Promise<T>, options: { readonly isRead: boolean }) => Promise<T>;

/** Returns a store's database over a D1 binding. */
export function d1Database(d1: D1Database, run: Run = (query) => query()): StoreDatabase {
  const prepare = ({ sql, params }: Statement) => d1.prepare(sql).bind(...params);
  return {
    orm: ormOver((statement) => {
      const isRead = /^\s*(?:select|with)\b/i.test(statement.sql);
      return run(() => prepare(statement).raw(), { isRead });
    }),
    transaction: async (queries) => {
      if (queries.length === 0) return [];
      const statements = queries.map(toStatement);
      const batch = () => d1.batch<Record<string, unknown>>(statements.map(prepare));
      const results = await run(batch, { isRead: false });
      return results.map(({ results: rows }): Rows => rows.map(Object.values));
    },
  };
}
