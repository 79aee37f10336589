import { getTableColumns, type SQL, sql } from "drizzle-orm";
import type { OrderRecord } from "../../rules/order.ts";
import { orders as ordersTable } from "../../schema/orders.ts";
import type { Orm, StoreDatabase } from "../database.ts";
import { Refusal } from "../refusal.ts";

/**
 * How given orders differ from the stored orders. Each order is counted once. Of `shipped` ones, which
 * the placement ships, other fields may change too.
 */
export type Comparison = Readonly<Record<"new" | "replaced" | "shipped" | "unchanged", number>>;

/** How many refused orders a comparison names. */
const NAMED = 10;

const FIELDS = Object.keys(getTableColumns(ordersTable)) as (keyof OrderRecord)[];

/** The columns of `orders`, in the sequence of `FIELDS`; the first one is `id`. */
const COLUMNS = Object.values(getTableColumns(ordersTable)).map(({ name }) => name);

/** Returns SQL with what `write` returns for each column, separated by commas. */
const listOf = (write: (name: string, index: number) => string, columns = COLUMNS) =>
  sql.raw(columns.map(write).join());

/** Writes an order as `[number, …]` in JSON, with the columns of the table `orders`. */
export const stagedText = (number: number, order: OrderRecord) =>
  `[${number},${valuesOf(order, FIELDS)}]`;

/** Writes the fields of an order in JSON, separated by commas. */
export function valuesOf<Order>(order: Order, fields: readonly (keyof Order)[]): string {
  const values = fields.map((field) => {
    const value = order[field] ?? null;
    return typeof value === "bigint" ? String(value) : JSON.stringify(value);
  });
  return values.join();
}

/** Returns SQL that reads `stagedText`s, as `entry.value` of `source`, as the table `staged`. */
export function stagedOrders(source: SQL, columns = COLUMNS): SQL {
  return sql`(
    SELECT entry.value ->> 0 AS number,
      ${listOf((name, index) => `entry.value ->> ${index + 1} AS ${name}`, columns)}
    FROM ${source}
  ) AS staged`;
}

/** True if the stored order is missing or differs from the staged order. */
const DIFFERS = sql`(${listOf((name) => `orders.${name}`)}) IS NOT (${listOf((name) => `staged.${name}`)})`;

const SHIPS = sql.raw("orders.status = 'pending' AND staged.status = 'shipped'");
const count = (condition: SQL) => sql<number>`count(*) FILTER (WHERE ${condition})`;

/** True if the staged order would make a shipped order pending again. */
const IS_REFUSED = sql.raw("orders.status = 'shipped' AND staged.status <> 'shipped'");

const COMPARED = {
  new: count(sql`orders.id IS NULL`),
  replaced: count(sql`orders.id IS NOT NULL AND ${DIFFERS} AND NOT (${SHIPS})`),
  shipped: count(SHIPS),
  unchanged: count(sql`NOT ${DIFFERS}`),
  refused: count(IS_REFUSED),
};

/** The number of a staged order among the given orders, and its id. */
const NAME = { number: sql<number>`staged.number`, id: sql<string>`CAST(staged.id AS TEXT)` };

const joined = (staged: SQL) => sql`${staged} LEFT JOIN orders ON orders.id = staged.id`;
const comparing = (orm: Orm, staged: SQL) => orm.select(COMPARED).from(joined(staged));

/**
 * Compares staged orders with the stored orders, without writing to the database.
 *
 * @returns also the number of orders that would make a shipped order pending again, and the first ten.
 */
export async function compareOrders(orm: Orm, tables: Iterable<SQL>) {
  const sums = { new: 0, replaced: 0, shipped: 0, unchanged: 0, refused: 0 };
  const named: { readonly number: number; readonly id: string }[] = [];
  for (const staged of tables) {
    const [row] = await comparing(orm, staged);
    if (row === undefined) continue;
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += row[name];
    if (row.refused === 0) continue;
    const refused = orm.select(NAME).from(joined(staged)).where(IS_REFUSED);
    named.push(...(await refused.orderBy(NAME.number).limit(NAMED)));
  }
  const { refused: refusedCount, ...counts } = sums;
  const refused = named.toSorted((one, other) => one.number - other.number).slice(0, NAMED);
  return { counts, refusedCount, refused };
}

/** Returns statements that write the staged orders that differ to the table `orders`. */
export function placing(staged: SQL): SQL[] {
  return [
    // Not an upsert, which would also fire the trigger that is meant for INSERT OR REPLACE.
    sql`
      UPDATE orders SET ${listOf((name) => `${name} = staged.${name}`, COLUMNS.slice(1))}
      FROM ${staged} WHERE orders.id = staged.id AND ${DIFFERS}`,
    sql`
      INSERT INTO orders (${listOf(String)}) SELECT ${listOf(String)} FROM ${staged}
      WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = staged.id)`,
  ];
}

/**
 * Places some orders in one transaction, all or none: inserts or replaces them by id. Of several with
 * the same id, the last one wins. Lists that are under way stay whole.
 *
 * @param orders at most some thousand: they are one parameter, which D1 limits to 2 MB.
 * @returns how the orders differed from the stored orders before.
 * @throws {Refusal} `order_already_shipped`, if one would make a shipped order pending again.
 */
export async function placeOrders(
  database: StoreDatabase,
  orders: readonly OrderRecord[],
): Promise<Comparison> {
  const last = new Map(orders.map((order, index) => [order.id, stagedText(index, order)]));
  const staged = stagedOrders(sql`json_each(${`[${[...last.values()].join()}]`}) AS entry`);
  const compare = comparing(database.orm, staged);
  try {
    const [compared = []] = await database.transaction([compare, ...placing(staged)]);
    const [added = 0, replaced = 0, shipped = 0, unchanged = 0] = (compared[0] ?? []) as number[];
    return { new: added, replaced, shipped, unchanged };
  } catch (error) {
    // Of another error, nobody knows whether the orders were placed.
    if (!/cannot be turned back/.test((error as Error).message)) throw error;
    const [refused] = (await compareOrders(database.orm, [staged])).refused;
    if (refused === undefined) throw error;
    throw new Refusal(
      "order_already_shipped",
      `orders[${refused.number}]: order ${refused.id} has shipped, which cannot be turned back`,
    );
  }
}
