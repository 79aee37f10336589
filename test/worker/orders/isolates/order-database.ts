import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import fc from "fast-check";
import { readMigrations } from "../../../../src/operator/database/migrations.ts";
import { INT64_MAX, INT64_MIN } from "../../../../src/rules/int64.ts";
import { orderBytes, SEGMENT_BYTES } from "../../../../src/schema/orders.ts";

/** Ids around the bounds of int64 and of exact JavaScript numbers, five neighbours each. */
const NEIGHBOURS = [INT64_MIN, -(2n ** 53n) - 2n, -2n, 2n ** 53n - 2n, INT64_MAX - 4n];
export const anyId = fc.nat(24).map((n) => NEIGHBOURS[Math.floor(n / 5)]! + BigInt(n % 5));

/** So small that four orders fill a segment. */
export const MAX_SEGMENT_BYTES = 400;

const onSimulatedClock = (sql: string) =>
  sql
    .replaceAll("unixepoch('subsec') * 1000000", "now_microseconds()")
    .replaceAll("unixepoch('subsec') * 1000", "now_microseconds() / 1000");

/** Opens an in-memory database with the tables and triggers of the service, but small segments. */
export function openOrderDatabase(): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  database.function("now_microseconds", () => BigInt(Date.now()) * 1_000n);
  for (const { sql } of readMigrations("orders")) {
    const small = sql
      .replaceAll(String(SEGMENT_BYTES), String(MAX_SEGMENT_BYTES))
      .replaceAll(String(Math.floor(SEGMENT_BYTES / 3)), "200")
      .replaceAll("/ 8192", "/ 64");
    database.exec(onSimulatedClock(small));
  }
  return database;
}

/** Changes of the order with the id `?1`. Some change nothing. */
const STATEMENTS = {
  place: `INSERT INTO orders (id, pet_id, ship_date, complete)
    SELECT ?1, -(?1 & 1023), strftime('%Y-%m-%dT%H:%M:%fZ', ?1 % 99 * 1e8, 'unixepoch'), ?1 & 1
    WHERE ?1 NOT IN (SELECT id FROM orders)`,
  insert: "INSERT INTO orders (id, status) VALUES (?1, 'shipped') ON CONFLICT DO NOTHING",
  cancel: "DELETE FROM orders WHERE id = ?1 AND status = 'pending'",
  touch: "UPDATE orders SET quantity = ifnull(quantity, 0) + 1 WHERE id = ?1",
  replace: `INSERT OR REPLACE INTO orders (id, quantity)
    SELECT ?1, 5 WHERE ?1 NOT IN (SELECT id FROM orders WHERE status = 'shipped')`,
};
export const ORDER_CHANGES = Object.keys(STATEMENTS) as (keyof typeof STATEMENTS)[];

export const changeOrder = (database: DatabaseSync, change: keyof typeof STATEMENTS, id: bigint) =>
  execute(database, STATEMENTS[change], id);

/** Places orders with the ids 1 to `count`, which lack all other fields. */
export function placeMany(database: DatabaseSync, count: number): void {
  const ids = `n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ${count})`;
  database.exec(`WITH RECURSIVE ${ids} INSERT INTO orders (id) SELECT id FROM n`);
}

/** Runs a statement and returns whether it changed a row, with any id. */
export function execute(database: DatabaseSync, sql: string, ...values: SQLInputValue[]): boolean {
  const statement = prepare(database, sql);
  // Otherwise `run` throws where the id of the last inserted row is above 2^53.
  statement.setReadBigInts(true);
  return statement.run(...values).changes > 0;
}

const prepared = new WeakMap<DatabaseSync, Map<string, StatementSync>>();

/** Prepares each statement only once, because preparing its triggers takes longer than a run. */
export function prepare(database: DatabaseSync, sql: string): StatementSync {
  const statements = prepared.get(database) ?? new Map<string, StatementSync>();
  prepared.set(database, statements);
  const statement = statements.get(sql) ?? database.prepare(onSimulatedClock(sql));
  statements.set(sql, statement);
  return statement;
}

const replica = new DatabaseSync(":memory:");
let replicated: Uint8Array;

/** Returns a database with what another one contained when it was serialized, until the next call. */
export function replicaOf(contents: Uint8Array): DatabaseSync {
  if (contents === replicated) return replica;
  replica.deserialize((replicated = contents));
  prepared.delete(replica);
  return replica;
}

/** The JSON of an order, created independently of the service's code. The patch omits nulls. */
export const ORDER_JSON = `json_patch('{}', json_object(
  'id', id, 'petId', pet_id, 'quantity', quantity, 'shipDate', ship_date,
  'complete', json(CASE complete WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END)))`;

const LIST = `SELECT '[' || ifnull(group_concat(${ORDER_JSON}), '') || ']' AS list
  FROM (SELECT * FROM orders ORDER BY id)`;
export const listOf = (database: DatabaseSync) => String(prepare(database, LIST).get()?.["list"]);

export function versionOf(database: DatabaseSync) {
  const row = prepare(database, "SELECT version, sequence FROM order_list").get()!;
  return { version: String(row["version"]), sequence: Number(row["sequence"]) };
}

const BYTES = String(new SQLiteSyncDialect().sqlToQuery(orderBytes()).sql);

/** Runs `change` like a large import: with triggers turned off, and new segments at the end. */
export function bulkChange(database: DatabaseSync, change: () => void): void {
  database.exec("INSERT INTO order_bulk_change (id) VALUES (1)");
  change();
  database.exec(`
    DELETE FROM order_segments;
    INSERT INTO order_segments (first_id, version, bytes)
    SELECT iif(segment = 0, -9223372036854775808, min(id)), lower(hex(randomblob(16))), sum(bytes)
    FROM (SELECT id, ${BYTES} AS bytes, (row_number() OVER (ORDER BY id) - 1) / 3 AS segment FROM orders) GROUP BY segment;
    INSERT OR IGNORE INTO order_segments (first_id, version, bytes)
    VALUES (-9223372036854775808, lower(hex(randomblob(16))), 0);
    DELETE FROM order_bulk_change`);
}

type Query = (sql: string, values: SQLInputValue[]) => Promise<Record<string, unknown>[]>;

/** Returns a D1 database. `query` runs its statements, and `sessionQuery` those of sessions. */
export function d1Of(query: Query, sessionQuery = query): D1Database {
  const preparing = (source: Query) => (sql: string) => ({
    bind: (...values: SQLInputValue[]) => {
      const all = async () => ({ results: await source(sql, values), meta: { changes: 0 } });
      return { all, run: all };
    },
  });
  const session = { prepare: preparing(sessionQuery) };
  const batch = (statements: D1PreparedStatement[]) =>
    Promise.all(statements.map((one) => one.all()));
  return { prepare: preparing(query), batch, withSession: () => session } as unknown as D1Database;
}
