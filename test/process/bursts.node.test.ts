import { once } from "node:events";
import { expect, test } from "vitest";
import { PLAN_LIMITS } from "../../src/rules/limits/plans.ts";
import { openList } from "../support/open-list.ts";
import type { Server } from "../support/server.ts";
import { createKeys, placeLongOrders } from "./store-content.ts";
import { SERVICE, ServedStore } from "./worker-server.ts";

const PLANS = { free: "free", pro: "pro", business: "business" } as const;

const store = new ServedStore();

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
  const keys = await createKeys(store.path, PLANS);
  await placeLongOrders(store.path, 7_000);
  for (const plan of Object.values(PLANS)) {
    const server = await store.serve(SERVICE);
    const keysOfBurst = Array<string>(PLAN_LIMITS[plan].perMinute).fill(keys[plan]);
    const lists = await Promise.all(keysOfBurst.map((key) => read(server, key)));
    expect(new Set(lists)).toEqual(new Set(["200 whole"]));
  }
});
