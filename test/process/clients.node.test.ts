import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { beforeAll, expect, it } from "vitest";
import { INT64_MIN } from "../../src/rules/int64.ts";
import type { Server } from "../support/server.ts";
import { createKeys, placeLongOrders } from "./store-content.ts";
import { advanceClock, CLOCKED_SERVICE, ServedStore } from "./worker-server.ts";

/** The list is twice as long as what the connection of a client that does not read buffers: 6 MiB. */
const ORDERS = 120_000;
const STALL_MS = 600_000;
const TIMES = { lineMs: 600, patienceMs: 300, stallMs: STALL_MS, leaseMs: STALL_MS };
/** A server with these sizes remembers no orders, and has room for two lists. */
const SIZES = JSON.stringify({ memoryBytes: 0, placeBytes: 600_000, ...TIMES });

const store = new ServedStore();
const other = "business";
const keys = await createKeys(store.path, { hostile: "free", other, second: other, third: other });
const integers = `"petId":${INT64_MIN},"quantity":${INT64_MIN}`;
const rest = `${integers},"shipDate":"2026-11-20T08:30:00.000Z"`;
const whole = `[${Array.from({ length: ORDERS }, (_, n) => `{"id":${n + 1},${rest}}`).join()}]`;
let server: Server;
let small: Server;

beforeAll(async () => {
  await placeLongOrders(store.path, ORDERS);
  server = await store.serve(CLOCKED_SERVICE);
  small = await store.serve(CLOCKED_SERVICE, { SIZES });
});

/** Requests the list. The client takes nothing of the response's body until it is read. */
async function list({ url }: Server, key: string): Promise<IncomingMessage> {
  const options = { headers: { Authorization: `Bearer ${key}` }, agent: false };
  const [response] = await once(get(`${url}/v1/store/orders`, options), "response");
  return (response as IncomingMessage).on("error", () => {});
}

/** Reads a response until it ends or is cut off. */
async function readAll(response: IncomingMessage): Promise<string> {
  let all = "";
  response.setEncoding("utf8").on("data", (part: string) => void (all += part));
  await new Promise((resolve) => void response.on("close", resolve));
  return all;
}

it("answers all lists of a key that it does not read, and another key's list beside them", async () => {
  const unread = await Promise.all(Array.from({ length: 40 }, () => list(server, keys.hostile)));
  expect(unread.map(({ statusCode }) => statusCode)).toEqual(Array(40).fill(200));
  const beside = await list(server, keys.other);
  expect(beside.statusCode).toBe(200);
  expect((await text(beside)) === whole).toBe(true);
  for (const response of unread) response.destroy();
});

it("serves a slow reader to the end, much longer than the stall time", async () => {
  const slow = await list(small, keys.other);
  slow.setEncoding("utf8");
  let received = "";
  for (let part = 0; part < 20; part += 1) {
    await advanceClock(small, STALL_MS / 10 / 1_000);
    received += String(slow.read(100) ?? "");
  }
  received += await text(slow);
  expect(received === whole).toBe(true);
});

it("gives a place to each of two keys, cuts off a second list of a key for that, and a key's only list once it is stalled", async () => {
  const hostile = [await list(small, keys.hostile), await list(small, keys.hostile)];
  const further = await list(small, keys.hostile);
  expect([further.statusCode, further.headers["retry-after"]]).toEqual([503, "5"]);
  further.resume();
  const stalled = await list(small, keys.other);
  expect(stalled.statusCode).toBe(200);
  const [one = "", longer = ""] = (await Promise.all(hostile.map(readAll))).toSorted();
  expect(longer === whole && whole.startsWith(one) && one.length < whole.length).toBe(true);
  const second = await list(small, keys.second);
  let third = await list(small, keys.third);
  expect(third.statusCode).toBe(503);
  // The connections of stalled readers may still take some pieces.
  for (let most = 100; third.statusCode === 503 && most > 0; most -= 1) {
    third.resume();
    await advanceClock(small, STALL_MS / 1_000);
    third = await list(small, keys.third);
  }
  expect((await readAll(third)) === whole).toBe(true);
  const part = await readAll(stalled);
  expect(whole.startsWith(part) && part.length < whole.length).toBe(true);
  expect(await (await fetch(`${small.url}/log`)).text()).toContain("order_list_displaced");
  second.destroy();
});
