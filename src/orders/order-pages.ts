import { gte, sql } from "drizzle-orm";
import { SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import { queryDatabase } from "../db/availability.ts";
import { orderList, orders } from "../db/schema.ts";
import { INT64_MAX, INT64_MIN } from "./int64.ts";
import { orderJsonFields } from "./order-json.ts";

/** Orders of a page at most: at 150 bytes each well below the 2 MB of a D1 result. */
const PAGE_ORDERS = 8_000;

/** A run of orders in ascending id. */
export interface OrderPage {
  /** The list's version when the page was read. */
  readonly version: string;
  /** JSON objects with commas between them; empty where there are no orders. */
  readonly json: string;
  /** The least id of the next page; `null` after the last one. */
  readonly nextId: bigint | null;
}

interface Row {
  version: string;
  count: number;
  last: string | null;
  json: string | null;
}

const VERSION_SQL = new SQLiteSyncDialect().sqlToQuery(
  sql`SELECT ${orderList.version} AS version FROM ${orderList}`,
).sql;

const version = sql`(SELECT ${orderList.version} FROM ${orderList})`;

/** One statement, so that version and page are of one moment. No page is read of a known version. */
const PAGE_SQL = new SQLiteSyncDialect().sqlToQuery(sql`
  SELECT ${version} AS version, count(*) AS count, max(id) || '' AS last, group_concat(json, ',') AS json
  FROM (
    SELECT ${orders.id} AS id, '{' || ${orderJsonFields} || '}' AS json FROM ${orders}
    WHERE ${version} NOT IN (SELECT value FROM json_each(${sql.placeholder("knownVersions")}))
      AND ${gte(orders.id, sql`CAST(${sql.placeholder("firstId")} AS INTEGER)`)}
      AND ${orders.status} <> 'cancelled'
    ORDER BY ${orders.id} LIMIT ${sql.raw(String(PAGE_ORDERS))}
  )`).sql;

/** Reads the orders of the store page by page. */
export class OrderPages {
  readonly #database: D1Database;
  readonly #timeoutMs: number;

  constructor(database: D1Database, timeoutMs: number) {
    this.#database = database;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Reads the list's version alone.
   *
   * @throws {DatabaseUnavailableError}
   */
  async version(): Promise<string> {
    const statement = this.#database.prepare(VERSION_SQL);
    const row = await queryDatabase(this.#timeoutMs, () => statement.first<{ version: string }>());
    if (row === null) throw new Error("The store has lost its version.");
    return row.version;
  }

  /**
   * Reads the first page, unless the list's version is one of `knownVersions`: then the page is empty.
   *
   * @throws {DatabaseUnavailableError}
   */
  first(knownVersions: readonly string[] = []): Promise<OrderPage> {
    return this.#read(INT64_MIN, knownVersions);
  }

  /** Reads the page that begins at `nextId` of the one before it. */
  next(nextId: bigint): Promise<OrderPage> {
    return this.#read(nextId, []);
  }

  async #read(firstId: bigint, knownVersions: readonly string[]): Promise<OrderPage> {
    const statement = this.#database
      .prepare(PAGE_SQL)
      .bind(JSON.stringify(knownVersions), firstId.toString());
    const row = await queryDatabase(this.#timeoutMs, () => statement.first<Row>());
    if (row === null) throw new Error("An aggregate without a row.");
    const last = row.last === null || row.count < PAGE_ORDERS ? INT64_MAX : BigInt(row.last);
    return {
      version: row.version,
      json: row.json ?? "",
      nextId: last === INT64_MAX ? null : last + 1n,
    };
  }
}
