import { drizzle } from "drizzle-orm/d1";
import type { SQL, SQLWrapper } from "drizzle-orm";
import { type StoreDatabase, toStatement } from "../../src/operator/database/database.ts";

/** Returns an adapter through which the operator's commands use a database of the Worker. */
export function d1Store(d1: D1Database): Pick<StoreDatabase, "orm" | "all" | "transaction"> {
  const prepare = (query: SQLWrapper) => {
    const { sql, params } = toStatement(query);
    return d1.prepare(sql).bind(...params);
  };
  return {
    orm: drizzle(d1),
    all: async <Row>(statement: SQL) => (await prepare(statement).all<Row>()).results,
    transaction: async (statements) => void (await d1.batch(statements.map(prepare))),
  };
}
