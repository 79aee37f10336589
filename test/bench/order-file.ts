import { open } from "node:fs/promises";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";

const LINES_AT_ONCE = 10_000;
/** Added to half of the ids. Rounding such large ids would confuse neighbouring orders. */
const LARGE_IDS = 2n ** 60n;
const FIRST_SHIP_DATE_MS = Date.UTC(2026, 0, 1);

/** Writes `count` orders in ascending id, one per line, as the JSON that the API returns. */
export async function writeOrderFile(path: string, count: number): Promise<void> {
  const file = await open(path, "w");
  for (let index = 0; index < count; index += LINES_AT_ONCE) {
    const length = Math.min(LINES_AT_ONCE, count - index);
    const lines = Array.from({ length }, (_, offset) => `${orderLine(index + offset, count)}\n`);
    await file.write(lines.join(""));
  }
  await file.close();
}

/** Returns an order as JSON. Some orders have extreme int64 values, and some lack fields. */
function orderLine(index: number, count: number): string {
  const isExtreme = index % 1_000 === 3;
  const shipDate = new Date(FIRST_SHIP_DATE_MS + index * 12_345).toISOString();
  const members = [
    `"id":${orderId(index, count)}`,
    isExtreme
      ? `"petId":${index % 2_000 === 3 ? INT64_MIN : INT64_MAX}`
      : `"petId":${index % 5_000}`,
    index % 100 === 5 ? "" : `"quantity":${isExtreme ? INT64_MAX : index % 9}`,
    index % 100 === 7 ? "" : `"shipDate":"${shipDate}"`,
    index % 100 === 9 ? "" : `"complete":${index % 3 === 0}`,
  ];
  return `{${members.filter((member) => member !== "").join(",")}}`;
}

/** Returns ascending ids: both extremes of int64, small ids, and ids that a double would round. */
function orderId(index: number, count: number): bigint {
  if (index === 0) return INT64_MIN;
  if (index === count - 1) return INT64_MAX;
  return BigInt(index) + (index * 2 > count ? LARGE_IDS : 0n);
}
