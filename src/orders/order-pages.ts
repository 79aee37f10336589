import { gte, sql } from "drizzle-orm";
import { SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import expansion from "../../dist/wasm/expand-orders.wasm";
import { queryDatabase } from "../db/availability.ts";
import { orderList, orders } from "../db/schema.ts";
import { INT64_MAX, INT64_MIN } from "./int64.ts";
import {
  type Expansion,
  joinedShorthand,
  lastIdIn,
  MAX_SHORTHAND_BYTES,
  OrderExpander,
  orderShorthand,
} from "./order-expander.ts";

/** A page is one row of D1's, of which 2 MB is the limit. */
const PAGE_BYTES = 1_200_000;

/** The schema bounds the length of an order, so that this many never exceed the bytes of a page. */
export const PAGE_ORDERS = Math.floor(PAGE_BYTES / MAX_SHORTHAND_BYTES);

/** A run of orders in ascending id. */
export interface OrderPage {
  /** The list's version when the page was read. */
  readonly version: string;
  /** Its part of the list's JSON array: the first page opens the array, the last one closes it. */
  readonly json: Uint8Array<ArrayBuffer>;
  /** The least id of the next page; `null` after the last one. */
  readonly nextId: bigint | null;
}

interface Row {
  version: string;
  count: number;
  shorthand: string | null;
}

const expander = new OrderExpander(
  new WebAssembly.Instance(expansion).exports as unknown as Expansion,
);

const dialect = new SQLiteSyncDialect();

const currentVersion = sql`(SELECT ${orderList.version} FROM ${orderList})`;

const VERSION_SQL = dialect.sqlToQuery(sql`SELECT ${currentVersion} AS version`).sql;

/** One statement, so that version and page are of one moment. Of a known version no row is read. */
const PAGE_SQL = dialect.sqlToQuery(sql`
  SELECT ${currentVersion} AS version, count(*) AS count, ${joinedShorthand} AS shorthand
  FROM (
    SELECT ${orderShorthand} AS shorthand FROM ${orders}
    WHERE ${gte(orders.id, sql`CAST(${sql.placeholder("firstId")} AS INTEGER)`)} AND ${orders.status} <> 'cancelled'
    ORDER BY ${orders.id}
    LIMIT iif(${currentVersion} IN (SELECT value FROM json_each(${sql.placeholder("knownVersions")})), 0, ${sql.raw(String(PAGE_ORDERS))})
  )`).sql;

/**
 * Reads the orders of the store page by page. The first page is asked of the primary, so that it has
 * every change made before; later ones may come from a replica that is no older.
 */
export class OrderPages {
  readonly #database: D1Database;
  readonly #timeoutMs: number;
  #session: D1DatabaseSession | null = null;

  constructor(database: D1Database, timeoutMs: number) {
    this.#database = database;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Reads the list's version alone, of the primary: without a session, which would cost more.
   *
   * @throws {DatabaseUnavailableError}
   */
  async version(): Promise<string> {
    const statement = this.#database.prepare(VERSION_SQL);
    return (await this.#query<Pick<Row, "version">>(statement)).version;
  }

  /**
   * Reads the first page, unless the list's version is one of `knownVersions`: then the page is empty.
   *
   * @throws {DatabaseUnavailableError}
   */
  first(knownVersions: readonly string[] = []): Promise<OrderPage> {
    return this.#page(INT64_MIN, knownVersions);
  }

  /**
   * Reads the page that begins at `nextId` of the one before it.
   *
   * @throws {DatabaseUnavailableError}
   */
  next(nextId: bigint): Promise<OrderPage> {
    return this.#page(nextId, []);
  }

  async #page(firstId: bigint, knownVersions: readonly string[]): Promise<OrderPage> {
    this.#session ??= this.#database.withSession("first-primary");
    const statement = this.#session.prepare(PAGE_SQL);
    const row = await this.#query<Row>(
      statement.bind(String(firstId), JSON.stringify(knownVersions)),
    );
    const { version, count, shorthand } = row;
    const last = shorthand === null || count < PAGE_ORDERS ? INT64_MAX : lastIdIn(shorthand);
    const isFirst = firstId === INT64_MIN;
    const isLast = last === INT64_MAX;
    return {
      version,
      json: expander.expand(shorthand ?? "", count, { isFirst, isLast }),
      nextId: isLast ? null : last + 1n,
    };
  }

  async #query<T>(statement: D1PreparedStatement): Promise<T> {
    const row = await queryDatabase(this.#timeoutMs, () => statement.first<T>());
    if (row === null) throw new Error("A query that always has a row had none.");
    return row;
  }
}
