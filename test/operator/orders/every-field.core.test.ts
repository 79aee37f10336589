import { expect, test } from "vitest";
import type * as z from "zod";
import { exportPages } from "../../../src/operator/orders/export.ts";
import { importOrders } from "../../../src/operator/orders/import.ts";
import { SortedOrders } from "../../../src/operator/orders/sorted-orders.ts";
import { orderSchema } from "../../../src/rules/order.ts";
import { orders as table } from "../../../src/schema/orders.ts";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { cancelOrder } from "../../../src/worker/orders/cancellation.ts";
import { NearestReads } from "../../../src/worker/db/nearest-reads.ts";
import {
  type Manifest,
  readSnapshot,
  segmentReader,
} from "../../../src/worker/orders/list-database.ts";
import { d1Of, prepare } from "../../worker/orders/isolates/order-database.ts";
import { openMemoryStore } from "./memory-store.ts";

/** Two values of each field, in JSON. */
const VALUES = {
  petId: ["9007199254740993", "-1"],
  quantity: ["2", "0"],
  shipDate: ['"2026-11-20T08:30:00.000Z"', '"2026-11-21T08:30:00.000Z"'],
  complete: ["false", "true"],
} satisfies Record<Exclude<keyof z.output<typeof orderSchema>, "id">, [string, string]>;

const NEEDS = { knownVersions: [], segmentVersions: [], maxMissingBytes: 0, mayReadReplica: false };

const FIELDS = Object.keys(orderSchema.shape) as ("id" | keyof typeof VALUES)[];
test.each(FIELDS.filter((field) => field !== "id"))(
  "%s goes through import, list, entity tag, former states, cancellation and export",
  async (field) => {
    const { sqlite, open } = openMemoryStore();
    sqlite.function("now_microseconds", () => BigInt(Date.now()) * 1_000n);
    const store = open();
    const d1 = d1Of(async (sql, values) => prepare(sqlite, sql).all(...values));
    const queries = new DatabaseQueries("orders", 1_000);
    const reads = new NearestReads(queries, false);
    const place = async (...lines: string[]) => {
      using orders = new SortedOrders();
      await orders.read([Buffer.from(lines.join("\n"))] as never);
      return await importOrders(store, orders);
    };
    const manifest = () => readSnapshot(reads, d1, NEEDS);
    /** The list as it was when its manifest was read. */
    const listAsOf = async (then: Manifest) => {
      const json = await segmentReader(reads, d1, then, () => {})(then.segments);
      const texts = Array.from(json.values(), (one) => new Response(one).text());
      return (await Promise.all(texts)).join("");
    };
    const exported = async () => (await exportPages(store).next()).value?.lines;

    // An import of a small part of the store keeps former states.
    await place(...Array.from({ length: 20 }, (_, n) => `{"id":${n + 2}}`));
    const orders = VALUES[field].map((value) => `"id":1,"${field}":${value}`);
    const moments: [Manifest, string][] = [];
    const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };
    for (const [index, order] of orders.entries()) {
      const changed = { ...counts, [index === 0 ? "new" : "replaced"]: 1 };
      expect(await place(`{${order}}`)).toEqual(changed);
      expect(await place(`{${order}}`)).toEqual({ ...counts, unchanged: 1 });
      expect(await exported()).toContain(`{${order},"status":"pending"}\n`);
      moments.push([await manifest(), order]);
    }
    const cancelled = { keyId: "key_a", isAllowed: true };
    expect(await cancelOrder(d1, 1n, queries, cancelled)).toBe("cancelled");
    await place(`{${orders[0]}}`);
    moments.push([await manifest(), orders[0]!]);
    sqlite.exec("REPLACE INTO orders (id) VALUES (1)");
    expect(new Set(moments.map(([{ version }]) => version)).size).toBe(3);
    for (const [then, order] of moments) expect(await listAsOf(then)).toContain(`{${order}}`);
    const kept = Object.entries(sqlite.prepare("SELECT * FROM cancelled_orders").get()!);
    const columns = kept.filter(([, value]) => value !== null).map(([column]) => column);
    expect(columns).toEqual(["position", "cancelled_at", "cancelled_by", "id", table[field].name]);
    sqlite.close();
  },
);
