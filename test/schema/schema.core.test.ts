import type { DatabaseSync } from "node:sqlite";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteAsyncDialect, SQLiteTable } from "drizzle-orm/sqlite-core";
import { expect, test } from "vitest";
import { DATABASE_NAMES } from "../../src/schema/databases.ts";
import * as keys from "../../src/schema/keys.ts";
import * as orders from "../../src/schema/orders.ts";
import { openMigrated } from "../operator/orders/memory-store.ts";

/** Matches a check, whose condition has parentheses in at most two others. */
const CHECK = /CONSTRAINT \w+ CHECK \((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g;

const dialect = new SQLiteAsyncDialect();

/** Describes each column, check and index of a table that `src/schema` declares. */
function declared(table: SQLiteTable): string[] {
  const { name, columns, primaryKeys, checks, indexes } = getTableConfig(table);
  const key = primaryKeys[0]?.columns ?? columns.filter(({ primary }) => primary);
  const literal = (value: unknown) => (typeof value === "string" ? `'${value}'` : String(value));
  return [
    `${name} STRICT`,
    ...columns.map((column) => {
      // Every time is in milliseconds.
      if (column.dataType === "date") expect(column.mapToDriverValue(new Date(1))).toBe(1);
      const position = key.findIndex((part) => part.name === column.name) + 1;
      const type = column.getSQLType().toUpperCase();
      const value = column.default === undefined ? "" : literal(column.default);
      return `${name}.${column.name} ${type} ${Number(column.notNull)},${value},${position}`;
    }),
    // A check in the schema qualifies and quotes its columns: "orders"."status".
    ...checks.map((one) => {
      const condition = dialect.sqlToQuery(one.value).sql.replace(/"\w+"\."(\w+)"/g, "$1");
      return `${name} CONSTRAINT ${one.name} CHECK (${condition})`;
    }),
    ...indexes.map(({ config }) => {
      const indexed = config.columns.map((column) => ("name" in column ? column.name : ""));
      return `${name} INDEX ${config.name} ${Number(config.unique)} ${indexed.join()}`;
    }),
  ];
}

/** Describes the same of all tables in a database. */
function migrated(sqlite: DatabaseSync): string[] {
  const rows = sqlite.prepare(`
    WITH tables AS (
      SELECT s.name, s.sql, list.strict FROM pragma_table_list AS list
      JOIN sqlite_schema AS s ON s.name = list.name AND s.type = 'table' AND s.name NOT LIKE 'sqlite%'
    )
    SELECT sql, name || iif(strict, ' STRICT', '') AS line FROM tables
    UNION ALL
    SELECT '', format('%s.%s %s %d,%s,%d', t.name, c.name, c.type, c."notnull", c.dflt_value, c.pk)
    FROM tables AS t, pragma_table_info(t.name) AS c
    UNION ALL
    SELECT '', format('%s INDEX %s %d %s', t.name, i.name, i."unique",
      (SELECT group_concat(name) FROM pragma_index_info(i.name)))
    FROM tables AS t, pragma_index_list(t.name) AS i WHERE i.origin <> 'pk'`);
  return rows.all().flatMap(({ sql, line }) => {
    const checks = Array.from(String(sql).matchAll(CHECK), ([check]) => check);
    return [String(line), ...checks.map((check) => `${String(line).split(" ")[0]} ${check}`)];
  });
}

test.each(DATABASE_NAMES)("schema and migrations of %s agree", (name) => {
  using sqlite = openMigrated(name);
  const tables = Object.values({ keys, orders }[name]).filter((value) => is(value, SQLiteTable));
  expect(migrated(sqlite).toSorted()).toEqual(tables.flatMap(declared).toSorted());
  const schema = sqlite.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'");
  for (const { name: trigger, sql } of schema.all()) {
    const counts = orders.ORDER_FIELDS.map(
      (field) => String(sql).split(new RegExp(`\\b${field}\\b`)).length,
    );
    expect(new Set(counts).size, `${String(trigger)} names each field of an order`).toBe(1);
  }
});

test.each(["UPDATE key_changes SET actor = 'Eve'", "DELETE FROM key_changes"])(
  "the trail of the keys refuses %s",
  (statement) => {
    using sqlite = openMigrated("keys");
    sqlite.exec("INSERT INTO key_changes VALUES (1, 0, 'Ada', 'create', 'key_a', '{}')");
    expect(() => sqlite.exec(statement)).toThrow("the record of a change is never");
  },
);
