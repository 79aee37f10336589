import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import * as z from "zod";
import {
  SEGMENTS,
  type SegmentRow,
  SNAPSHOT,
  type SnapshotRow,
} from "../../../src/worker/orders/list-database.ts";
import { placeManyOrders, placeOrder } from "../../support/order-fixture.ts";

const version = z.string().regex(/^[0-9a-f]{32}$/);
const text = z.string().nullable();
const segment = { version, text } satisfies Record<keyof SegmentRow, z.ZodType>;
const list = { list_version: version, sequence: z.int().positive() };
const missing = z.null();
const SNAPSHOT_ROW: z.ZodType<SnapshotRow> = z.union([
  z.strictObject({ ...list, ...segment, first_id: z.string().regex(/^-?\d+$/), bytes: z.int() }),
  z.strictObject({ ...list, first_id: missing, version: missing, bytes: missing, text: missing }),
]);
const SEGMENT_ROW: z.ZodType<SegmentRow> = z.strictObject(segment);

test("D1 returns the rows that the code expects of statements that are written by hand", async () => {
  await placeManyOrders(9_000);
  const values = { known: "[]", inMemory: "[]", maxMissingBytes: 1 };
  const rows = z.array(SNAPSHOT_ROW).parse(await SNAPSHOT.all(env.ORDERS, values));
  expect(rows.length).toBeGreaterThan(1);
  expect(new Set(rows.map((row) => typeof (row as SegmentRow).text))).toEqual(
    new Set(["string", "object"]),
  );
  const [first] = rows as (SnapshotRow & SegmentRow & { first_id: string })[];
  const none = z
    .array(SNAPSHOT_ROW)
    .parse(await SNAPSHOT.all(env.ORDERS, { ...values, known: null }));
  expect(none).toMatchObject([{ first_id: null }]);
  await placeOrder(9_001n);
  const wanted = [[first!.version, first!.first_id, "100"]];
  const read = {
    segments: JSON.stringify(wanted),
    sequence: first!.sequence,
    version: first!.list_version,
  };
  const [found] = z.array(SEGMENT_ROW).parse(await SEGMENTS.all(env.ORDERS, read));
  expect(found!.text).toMatch(/^1\|/);
});
