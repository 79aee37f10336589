import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { PLAN_LIMITS } from "../../src/rules/limits/plans.ts";
import { openList } from "../support/open-list.ts";
import type { Server } from "../support/server.ts";
import { PATIENCE } from "../support/patience.ts";
import { AMPLE, createKeys } from "./store-content.ts";
import { call, CLOCKED_SERVICE, ServedStore, SERVICE } from "./worker-server.ts";

const CLIENTS = 6;
/** The requests a day of the key `limited`. */
const LIMIT = 300;
const PLACED = Array.from({ length: 3_000 }, (_, index) => 10_000 + index);
const IMPORTED = Array.from({ length: 8_000 }, (_, index) => 1_000_000 + index);
const PLANS = { free: "free", pro: "pro", business: "business" } as const;

const store = new ServedStore();
const cancelled = new Set<number>();
const attempted = new Set<number>();
let server: Server;

const limited = { ...AMPLE, perDay: LIMIT };
const keys = await createKeys(store.path, { ...PLANS, ample: AMPLE, limited });
beforeAll(async () => {
  await store.ordersJson(["import", "-"], linesOf(PLACED));
  server = await store.serve(SERVICE);
});

/** Returns orders as `orders export` writes them. */
function linesOf(ids: readonly number[]): string {
  const rest = '"petId":7,"quantity":1,"complete":false,"status":"pending"';
  return ids.map((id) => `{"id":${id},${rest}}\n`).join("");
}

async function cancelNext(): Promise<Response> {
  const id = PLACED[attempted.size]!;
  attempted.add(id);
  const response = await server.request(keys.ample, `/${id}`, "DELETE");
  if (response.status === 204) cancelled.add(id);
  return response;
}

/**
 * Starts clients that send one request after another, until they are stopped or one of them fails. The
 * outcomes are the statuses of answers, and errors.
 */
function startLoad(clients: number, send: () => Promise<Response>) {
  const outcomes: unknown[] = [];
  let isOver = false;
  const stop = () => {
    isOver = true;
    return Promise.all(all);
  };
  const client = async () => {
    while (!isOver) {
      const response = await send();
      await response.arrayBuffer();
      outcomes.push(response.status);
    }
  };
  const fail = (error: unknown) => {
    outcomes.push(error);
    isOver = true;
  };
  const all = Array.from({ length: clients }, () => client().catch(fail));
  /** Waits for so many answers, or for a failure. */
  const until = (count: number) => vi.waitUntil(() => isOver || outcomes.length >= count, PATIENCE);
  return { outcomes, until, stop };
}

test("no request or order is lost while commands run, and SIGKILL under load loses no admission, and no order but cancelled ones", async () => {
  const lists = startLoad(2, () => server.request(keys.ample));
  const cancels = startLoad(2, cancelNext);
  const [imported, created] = await Promise.all([
    store.ordersJson(["import", "-"], linesOf(IMPORTED)),
    store.keysJson("create", "--plan", "free", "--name", "Meanwhile"),
  ]);
  const file = join(store.path, "orders.ndjson");
  await store.ordersJson(["export", file]);
  for (const load of [lists, cancels]) await load.until(5);
  await lists.stop();
  expect(imported).toMatchObject({ imported: IMPORTED.length });
  expect(readFileSync(file, "utf8")).toContain(linesOf(IMPORTED));
  expect((await server.request(created.key)).status).toBe(200);

  const admit = () => server.request(keys.limited, "", "HEAD");
  const first = await admit();
  const admissions = startLoad(CLIENTS, admit);
  await admissions.until(80);
  const outcomes = [lists, cancels, admissions].map((load) => [...new Set(load.outcomes)]);
  expect(outcomes).toEqual([[200], [204], [200]]);
  await Promise.all([server.kill(), admissions.stop(), cancels.stop()]);
  expect([...admissions.outcomes, ...cancels.outcomes]).toContainEqual(expect.any(Error));
  expect(admissions.outcomes.length).toBeLessThan(LIMIT - 1);

  server = await store.serve(SERVICE);
  const answers = [first, ...(await Promise.all(Array.from({ length: LIMIT }, admit)))];
  const ends = new Set(answers.map(({ headers }) => headers.get("X-RateLimit-Reset")));
  expect(ends.size).toBe(1);
  const statuses = [...answers.map(({ status }) => status), ...admissions.outcomes];
  const admitted = statuses.filter((status) => status === 200).length;
  expect(admitted).toBeLessThanOrEqual(LIMIT);
  // For each client, at most one request was counted but had no response.
  expect(admitted).toBeGreaterThanOrEqual(LIMIT - CLIENTS);

  const response = await server.request(keys.ample);
  const listed = ((await response.json()) as { id: number }[]).map(({ id }) => id);
  const left = PLACED.filter((id) => !attempted.has(id) || listed.includes(id));
  expect(listed).toEqual([...left, ...IMPORTED]);
  expect(cancelled.isDisjointFrom(new Set(listed))).toBe(true);
  const [id] = cancelled;
  expect((await server.request(keys.ample, `/${id}`, "DELETE")).status).toBe(404);
});

/** Reads a list to its end. Returns the status, and whether the list is whole. */
async function read(from: Server, key: string): Promise<string> {
  let [head, tail] = ["", ""];
  const socket = openList(from, key).setEncoding("latin1");
  socket.on("data", (part: string) => {
    head ||= part;
    tail = (tail + part).slice(-16);
  });
  await once(socket, "close");
  return `${head.slice(9, 12)} ${/\](\r\n0\r\n\r\n)?\s*$/.test(tail) ? "whole" : "cut off"}`;
}

test("every list of a burst that a plan allows is whole: 60, 300 and 1,000 at once on a new isolate", async () => {
  for (const plan of Object.values(PLANS)) {
    const fresh = await store.serve(SERVICE);
    const burst = { length: PLAN_LIMITS[plan].perMinute };
    const lists = await Promise.all(Array.from(burst, () => read(fresh, keys[plan])));
    expect([...new Set(lists)]).toEqual(["200 whole"]);
  }
});

test("with JURISDICTION, no request reaches a Durable Object outside of it", async () => {
  // workerd has no jurisdictions, and says so. Without the var, the response is 200.
  const outside = await store.serve(SERVICE, { JURISDICTION: "eu" });
  const response = await fetch(`${outside.url}/healthz`);
  expect(response.status).toBe(500);
  expect(await response.text()).toContain("Jurisdiction restrictions are not implemented");
  const door = await store.serve(CLOCKED_SERVICE, { JURISDICTION: "eu" });
  const portal = { entrypoint: "ApiKeys", actor: "portal" } as const;
  const { id } = await call(door, portal, "find", keys.pro);
  await expect(call(door, portal, "quota", id)).rejects.toThrow();
});
