import type { Sql } from "sql-template-tag";
import type { StoreDatabase } from "../../src/operator/database/database.ts";

/** Returns an adapter through which the operator's commands use a database of the Worker. */
export function d1Store(d1: D1Database): Pick<StoreDatabase, "all" | "transaction"> {
  const prepare = ({ sql, values }: Sql) => d1.prepare(sql).bind(...values);
  return {
    all: async <Row>(statement: Sql) => (await prepare(statement).all<Row>()).results,
    transaction: async (statements) => void (await d1.batch(statements.map(prepare))),
  };
}
