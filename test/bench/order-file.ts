import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { createInterface } from "node:readline";
import { INT64_MAX, INT64_MIN } from "../../src/worker/orders/int64.ts";

const LINES_AT_ONCE = 10_000;
/** Above 2^53 only what keeps every digit keeps these apart. */
const LARGE_IDS = 2n ** 60n;
const FIRST_SHIP_DATE_MS = Date.UTC(2026, 0, 1);

/** Writes `count` orders in ascending id, one a line, each as the API has to answer it. */
export async function writeOrderFile(path: string, count: number): Promise<void> {
  const file = await open(path, "w");
  for (let index = 0; index < count; index += LINES_AT_ONCE) {
    const length = Math.min(LINES_AT_ONCE, count - index);
    const lines = Array.from({ length }, (_, offset) => `${orderLine(index + offset, count)}\n`);
    await file.write(lines.join(""));
  }
  await file.close();
}

/** The list that the API has to answer with, as JSON text in pieces. */
export async function* expectedList(path: string): AsyncGenerator<Buffer> {
  let opening = "[";
  let lines: string[] = [];
  for await (const line of createInterface({ input: createReadStream(path) })) {
    lines.push(line);
    if (lines.length < LINES_AT_ONCE) continue;
    yield Buffer.from(opening + lines.join(","));
    opening = ",";
    lines = [];
  }
  yield Buffer.from(lines.length > 0 ? `${opening}${lines.join(",")}]` : "]");
}

/** Ordinary orders; among them some with the ends of int64, and some that lack fields. */
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

/** Ends of int64 first and last, small ids between them, and large ones after the middle. */
function orderId(index: number, count: number): bigint {
  if (index === 0) return INT64_MIN;
  if (index === count - 1) return INT64_MAX;
  return BigInt(index) + (index * 2 > count ? LARGE_IDS : 0n);
}
