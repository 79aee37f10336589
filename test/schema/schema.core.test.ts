import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteAsyncDialect, SQLiteTable } from "drizzle-orm/sqlite-core";
import { expect, test } from "vitest";
import * as keys from "../../src/schema/keys.ts";
import * as orders from "../../src/schema/orders.ts";

const SCHEMAS = { keys, orders };
type DatabaseName = keyof typeof SCHEMAS;

const dialect = new SQLiteAsyncDialect();

/** The tables without a rowid: drizzle's schema cannot say so. */
const WITHOUT_ROWID = ["cancelled_orders", "former_key_hashes", "key_bans", "key_usage"];

const TRIGGERS: Record<DatabaseName, string[]> = {
  keys: ["key_changes_are_kept", "key_changes_are_not_replaced", "key_changes_are_not_rewritten"],
  orders: [
    "bulk_change_is_recorded",
    "change_renews_order_list",
    "delete_changes_order_list",
    "deleted_segments_are_joined",
    "empty_segments_are_removed",
    "grown_segments_are_split",
    "insert_changes_order_list",
    "orders_keep_their_id",
    "replacement_is_recorded",
    "shipped_orders_are_kept",
    "shipped_orders_are_not_replaced",
    "shipped_orders_stay_shipped",
    "shrunk_segments_are_joined",
    "update_changes_order_list",
  ],
};

/** The tables that `src/schema` declares, in the same form as `migratedTables`. */
function declaredTables(name: DatabaseName) {
  const tables = Object.values(SCHEMAS[name]).filter((value) => is(value, SQLiteTable));
  return tables
    .map((table) => {
      const { name: tableName, columns, primaryKeys, checks, indexes } = getTableConfig(table);
      const key = primaryKeys[0]?.columns ?? columns.filter((column) => column.primary);
      return {
        name: tableName,
        isStrict: true,
        hasRowid: !WITHOUT_ROWID.includes(tableName),
        columns: columns
          .map((column) => ({
            name: column.name,
            type: column.getSQLType().toUpperCase(),
            isNotNull: column.notNull,
            default: column.default === undefined ? null : literal(column.default),
            keyPosition: key.findIndex((part) => part.name === column.name) + 1,
          }))
          .toSorted(byName),
        // A check in the schema qualifies and quotes its columns: "orders"."status".
        checks: checks
          .map((one) => ({
            name: one.name,
            condition: dialect.sqlToQuery(one.value).sql.replace(/"\w+"\."(\w+)"/g, "$1"),
          }))
          .toSorted(byName),
        indexes: indexes
          .map(({ config }) => ({
            name: config.name,
            isUnique: config.unique,
            columns: config.columns.map((column) => ("name" in column ? column.name : column)),
          }))
          .toSorted(byName),
      };
    })
    .toSorted(byName);
}

function literal(value: unknown): string {
  return typeof value === "string" ? `'${value}'` : String(value);
}

function byName(one: { name: unknown }, other: { name: unknown }): number {
  return String(one.name) < String(other.name) ? -1 : 1;
}

function migrate(name: DatabaseName): DatabaseSync {
  const sqlite = new DatabaseSync(":memory:");
  const folder = join(import.meta.dirname, "../../migrations", name);
  for (const file of readdirSync(folder).toSorted()) {
    sqlite.exec(readFileSync(join(folder, file), "utf8"));
  }
  return sqlite;
}

function migratedTables(sqlite: DatabaseSync) {
  const all = (sql: string, ...params: string[]) => sqlite.prepare(sql).all(...params);
  const tables = all(
    `SELECT list.name, list.strict, list.wr, sqlite_schema.sql
     FROM pragma_table_list AS list JOIN sqlite_schema USING (name)
     WHERE list.type = 'table' AND list.name NOT LIKE 'sqlite%'`,
  );
  return tables
    .map(({ name, strict, wr, sql }) => ({
      name,
      isStrict: strict === 1,
      hasRowid: wr === 0,
      columns: all("SELECT * FROM pragma_table_info(?)", String(name))
        .map((column) => ({
          name: column["name"],
          type: column["type"],
          isNotNull: column["notnull"] === 1,
          default: column["dflt_value"],
          keyPosition: column["pk"],
        }))
        .toSorted(byName),
      checks: [...String(sql).matchAll(/^ *CONSTRAINT (\w+) CHECK \((.*)\),?$/gm)]
        .map(([, check, condition]) => ({ name: check, condition }))
        .toSorted(byName),
      indexes: all(
        `SELECT name, "unique" AS isUnique FROM pragma_index_list(?) WHERE origin <> 'pk'`,
        String(name),
      )
        .map(({ name: index, isUnique }) => ({
          name: index,
          isUnique: isUnique === 1,
          columns: all("SELECT name FROM pragma_index_info(?)", String(index)).map(
            (part) => part["name"],
          ),
        }))
        .toSorted(byName),
    }))
    .toSorted(byName);
}

test.each(["keys", "orders"] as const)("schema and migrations of %s agree", (name) => {
  using sqlite = migrate(name);
  expect(migratedTables(sqlite)).toEqual(declaredTables(name));
  const schema = sqlite.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'");
  const triggers = new Map(schema.all().map((row) => [row["name"], String(row["sql"])]));
  expect([...triggers.keys()].toSorted()).toEqual(TRIGGERS[name]);
  for (const [trigger, text] of triggers) {
    const counts = orders.ORDER_FIELDS.map(
      (field) => text.split(new RegExp(`\\b${field}\\b`)).length,
    );
    expect(new Set(counts).size, `${String(trigger)} names each field of an order`).toBe(1);
  }
});
