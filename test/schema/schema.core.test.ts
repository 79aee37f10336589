import { DatabaseSync } from "node:sqlite";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteAsyncDialect, SQLiteTable } from "drizzle-orm/sqlite-core";
import { expect, test } from "vitest";
import { readMigrations } from "../../src/operator/database/migrations.ts";
import { DATABASE_NAMES, type DatabaseName } from "../../src/schema/databases.ts";
import * as keys from "../../src/schema/keys.ts";
import * as orders from "../../src/schema/orders.ts";

const SCHEMAS = { keys, orders };

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
  const lines = (sql: string) =>
    sqlite
      .prepare(sql)
      .all()
      .map(({ line }) => String(line));
  const tables = `pragma_table_list AS list JOIN sqlite_schema AS s ON s.name = list.name
    AND s.type = 'table' AND s.name NOT LIKE 'sqlite%'`;
  const texts = lines(`SELECT s.name || char(10) || s.sql AS line FROM ${tables}`);
  return [
    ...lines(`SELECT s.name || iif(list.strict, ' STRICT', '') AS line FROM ${tables}`),
    ...lines(
      `SELECT format('%s.%s %s %d,%s,%d', s.name, c.name, c.type, c."notnull", c.dflt_value, c.pk)
         AS line
       FROM ${tables}, pragma_table_info(s.name) AS c`,
    ),
    ...texts.flatMap((text) => {
      const [name] = text.split("\n");
      return [...text.matchAll(CHECK)].map(([check]) => `${name} ${check}`);
    }),
    ...lines(
      `SELECT format('%s INDEX %s %d %s', s.name, i.name, i."unique",
         (SELECT group_concat(name) FROM pragma_index_info(i.name))) AS line
       FROM ${tables}, pragma_index_list(s.name) AS i WHERE i.origin <> 'pk'`,
    ),
  ];
}

function migratedDatabase(name: DatabaseName): DatabaseSync {
  const sqlite = new DatabaseSync(":memory:");
  for (const { sql } of readMigrations(name)) sqlite.exec(sql);
  return sqlite;
}

test.each(DATABASE_NAMES)("schema and migrations of %s agree", (name) => {
  using sqlite = migratedDatabase(name);
  const tables = Object.values(SCHEMAS[name]).filter((value) => is(value, SQLiteTable));
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
    using sqlite = migratedDatabase("keys");
    sqlite.exec("INSERT INTO key_changes VALUES (1, 0, 'Ada', 'create', 'key_a', '{}')");
    expect(() => sqlite.exec(statement)).toThrow("the record of a change is never");
  },
);
