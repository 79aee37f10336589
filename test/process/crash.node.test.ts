import { beforeAll, describe, expect, it, vi } from "vitest";
import type { Server } from "../support/server.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { Load } from "./load.ts";
import { orderLines } from "./order-lines.ts";
import { ServedStore, SERVICE } from "./worker-server.ts";

const CLIENTS = 6;
const LIMIT = 200;
const ADMITTED_BEFORE = 80;
const FIRST_ID = 10_000;
const ORDERS = 3_000;

const store = new ServedStore();
let server: Server;
let keys: Record<"free" | "pro" | "ample" | "minute" | "day", string>;
/** The state that responses had confirmed to the clients before the service was killed. */
let before: Awaited<ReturnType<typeof killUnderLoad>>;

beforeAll(async () => {
  keys = await createKeys(store.path, {
    free: "free",
    pro: "pro",
    ample: AMPLE,
    minute: { ...AMPLE, perMinute: LIMIT },
    day: { ...AMPLE, perDay: LIMIT },
  });
  await store.ordersJson(["import", "-"], orderLines(FIRST_ID, ORDERS));
  // Counts every refusal towards a ban, even in the ten seconds after the first refusal.
  const serve = () => store.serve(SERVICE, { BAN_GRACE_SECONDS: "0" });
  server = await serve();
  before = await killUnderLoad(await banFreeKey());
  server = await serve();
});

function request(key: string, path = "", method = "GET"): Promise<Response> {
  const headers = { Authorization: `Bearer ${key}` };
  return fetch(`${server.url}/v1/store/orders${path}`, { method, headers });
}

const cancel = (key: string, id: number) => request(key, `/${id}`, "DELETE");

/** Sends requests until the Free key is banned. Returns the end of the ban in Unix seconds. */
async function banFreeKey(): Promise<string | null> {
  for (let requests = 0; requests < 1_000; requests += 1) {
    const response = await request(keys.free);
    if ((await response.text()).includes("api_key_banned")) {
      return response.headers.get("X-RateLimit-Reset");
    }
  }
  throw new Error("not banned");
}

async function killUnderLoad(banEnd: string | null) {
  const ofMinute = await request(keys.minute);
  const ofDay = await request(keys.day);
  const cancelled = new Set<number>();
  const attempted = new Set<number>();
  const minute = new Load(CLIENTS, () => request(keys.minute));
  const day = new Load(CLIENTS, () => request(keys.day));
  const cancels = new Load(CLIENTS, async (turn) => {
    const id = FIRST_ID + turn;
    attempted.add(id);
    const response = await cancel(keys.ample, id);
    if (response.status === 204) cancelled.add(id);
    return response;
  });
  await vi.waitUntil(
    () => Math.min(minute.count(200), day.count(200), cancelled.size) >= ADMITTED_BEFORE,
    { timeout: 30_000, interval: 5 },
  );
  server.process.kill();
  const loads = [minute, day, cancels];
  await Promise.all(loads.map((load) => load.stop()));
  await server[Symbol.asyncDispose]();
  // The kill interrupted at least one request.
  expect(loads.flatMap(({ failures }) => failures)).not.toHaveLength(0);
  return {
    banEnd,
    windowEnds: [ofMinute, ofDay].map(({ headers }) => headers.get("X-RateLimit-Reset")),
    minute: minute.count(200) + 1,
    day: day.count(200) + 1,
    cancelled,
    attempted,
  };
}

describe("after SIGKILL in the middle of its work the service", () => {
  it.each([
    ["minute", 0],
    ["day", 1],
  ] as const)("still counts every admission in the window of a %s", async (name, index) => {
    const first = await request(keys[name]);
    expect(first.headers.get("X-RateLimit-Reset")).toBe(before.windowEnds[index]);
    const more = await Promise.all(Array.from({ length: LIMIT }, () => request(keys[name])));
    const after = [first, ...more].filter(({ status }) => status === 200).length;
    expect(before[name]).toBeLessThan(LIMIT);
    expect(before[name] + after).toBeLessThanOrEqual(LIMIT);
    // For each client, at most one request was counted but had no response.
    expect(before[name] + after).toBeGreaterThanOrEqual(LIMIT - CLIENTS);
  });

  it("still bans a key until the end that it announced before", async () => {
    const response = await request(keys.free);
    expect(await response.json()).toMatchObject({ status: 429, code: "api_key_banned" });
    expect(response.headers.get("X-RateLimit-Reset")).toBe(before.banEnd);
  });

  it("still has every order except those whose cancellation it acknowledged", async () => {
    const list: { id: number }[] = JSON.parse(await (await request(keys.pro)).text());
    const listed = new Set(list.map(({ id }) => id));
    expect(before.cancelled.size).toBeGreaterThanOrEqual(ADMITTED_BEFORE);
    expect([...before.cancelled].filter((id) => listed.has(id))).toEqual([]);
    const all = Array.from({ length: ORDERS }, (_, index) => FIRST_ID + index);
    expect(all.filter((id) => !listed.has(id) && !before.attempted.has(id))).toEqual([]);
    const [cancelled = NaN] = before.cancelled;
    expect((await cancel(keys.pro, cancelled)).status).toBe(404);
  });
});
