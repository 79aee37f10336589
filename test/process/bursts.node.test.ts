import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { PLAN_LIMITS } from "../../src/rules/limits/plans.ts";
import { openList } from "../support/open-list.ts";
import type { Server } from "../support/server.ts";
import { AMPLE, createKeys, placeLongOrders } from "./store-content.ts";
import { CLOCKED_SERVICE, ServedStore } from "./worker-server.ts";

const HOARDERS = ["a", "b", "c", "d", "e"] as const;
const OTHERS = ["v", "w", "x", "y"] as const;

const store = new ServedStore();
let keys: Record<"free" | "pro" | "business" | (typeof HOARDERS | typeof OTHERS)[number], string>;

beforeAll(async () => {
  const ample = Object.fromEntries([...HOARDERS, ...OTHERS].map((name) => [name, AMPLE]));
  const plans = { free: "free", pro: "pro", business: "business" } as const;
  keys = await createKeys(store.path, { ...plans, ...ample } as never);
  await placeLongOrders(store.path, 7_000);
});

/** Reads a list to its end. Returns the status, and whether the list is whole. */
async function read(server: Server, key: string): Promise<string> {
  let [head, tail] = ["", ""];
  const socket = openList(server, key).setEncoding("latin1");
  socket.on("data", (part: string) => {
    head ||= part;
    tail = (tail + part).slice(-16);
  });
  await once(socket, "close");
  return `${head.slice(9, 12)} ${/\](\r\n0\r\n\r\n)?\s*$/.test(tail) ? "whole" : "cut off"}`;
}

test("every list of a burst that a plan allows is whole: 60, 300 and 1,000 at once on a new isolate", async () => {
  for (const plan of ["free", "pro", "business"] as const) {
    const server = await store.serve(CLOCKED_SERVICE);
    const keysOfBurst = Array<string>(PLAN_LIMITS[plan].perMinute).fill(keys[plan]);
    const lists = await Promise.all(keysOfBurst.map((key) => read(server, key)));
    expect(new Set(lists)).toEqual(new Set(["200 whole"]));
  }
}, 240_000);

test("beside five keys that open many lists and read them slowly, each other key gets a list, and no list is cut off without need", async () => {
  // There is room for eight lists, of which each hoarder has one.
  const sizes = { memoryBytes: 0, placeBytes: 8 * 262_144, lineMs: 4_000, patienceMs: 500 };
  const server = await store.serve(CLOCKED_SERVICE, { SIZES: JSON.stringify(sizes) });
  const hoarded = HOARDERS.flatMap((name) =>
    Array.from({ length: 14 }, () => openList(server, keys[name])),
  );
  // 60 kB a second.
  const reading = setInterval(() => hoarded.forEach((socket) => socket.read(6_000)), 100);
  await wait(1_000);
  for (let round = 0; round < 2; round += 1) {
    const lists = await Promise.all(OTHERS.slice(0, 3).map((name) => read(server, keys[name])));
    expect(lists).toEqual(Array(3).fill("200 whole"));
  }
  clearInterval(reading);
  for (const socket of hoarded) socket.destroy();
}, 120_000);
