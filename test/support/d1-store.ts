import {
  ormOver,
  type Statement,
  type StoreDatabase,
  toStatement,
} from "../../src/operator/database/database.ts";

/** Returns an adapter through which the operator's commands use a database of the Worker. */
export function d1Store(d1: D1Database): StoreDatabase {
  const prepare = ({ sql, params }: Statement) => d1.prepare(sql).bind(...params);
  const orm = ormOver((statement) => prepare(statement).raw());
  return {
    orm,
    transaction: async (statements) => {
      await d1.batch(statements.map((statement) => prepare(toStatement(statement))));
    },
    close: async () => {},
  };
}
