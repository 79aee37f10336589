import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { Load } from "./load.ts";
import { Service } from "./service.ts";

const CLIENTS = 6;
const LIMIT = 200;
const ADMITTED_BEFORE = 80;
/** Orders to cancel, beyond the ids of the sample orders. */
const FIRST_ID = 10_000;
const ORDERS = 3_000;

interface NewKey {
  readonly id: string;
  readonly key: string;
}

/** What the clients were told before the service was killed in the middle of its work. */
interface Acknowledged {
  readonly banEnd: string | null;
  readonly windowEnds: readonly (string | null)[];
  readonly minute: number;
  readonly day: number;
  readonly cancelled: ReadonlySet<number>;
  readonly attempted: ReadonlySet<number>;
}

const store = new StoreFolder();
let service: Service;
let keys: Service["demoKeys"];
let minuteKey: NewKey;
let dayKey: NewKey;
let before: Acknowledged;

beforeAll(async () => {
  service = await Service.start(store.path, { npm: true });
  keys = service.demoKeys;
  const lines = Array.from({ length: ORDERS }, (_, index) => `{"id":${FIRST_ID + index}}\n`).join(
    "",
  );
  const create = (perMinute: number, perDay: number): Promise<NewKey> => {
    const limits = ["--per-minute", String(perMinute), "--per-day", String(perDay)];
    return store.keysJson("create", "--plan", "enterprise", "--name", "Own", ...limits);
  };
  [minuteKey, dayKey] = await Promise.all([
    create(LIMIT, 1_000_000),
    create(1_000_000, LIMIT),
    store.ordersJson(["import", "-"], lines),
  ]);
  const banEnd = await banFreeKey();
  before = { ...(await killUnderLoad()), banEnd };
  service = await Service.start(store.path);
}, 180_000);
afterAll(async () => {
  await service.end("SIGKILL");
  store.remove();
});

/** @returns the end of the ban. */
async function banFreeKey(): Promise<string | null> {
  // The grace of ten seconds, the strikes, and a slow machine.
  const deadline = performance.now() + 50_000;
  while (performance.now() < deadline) {
    const response = await service.list(keys.free);
    if ((await response.text()).includes("api_key_banned")) {
      return response.headers.get("X-RateLimit-Reset");
    }
  }
  throw new Error("not banned");
}

async function killUnderLoad(): Promise<Omit<Acknowledged, "banEnd">> {
  const ofMinute = await service.list(minuteKey.key);
  const ofDay = await service.list(dayKey.key);
  const cancelled = new Set<number>();
  const attempted = new Set<number>();
  const minute = new Load(CLIENTS, () => service.list(minuteKey.key));
  const day = new Load(CLIENTS, () => service.list(dayKey.key));
  const cancels = new Load(CLIENTS, async (turn) => {
    const id = FIRST_ID + turn;
    attempted.add(id);
    const response = await service.cancel(keys.enterprise, id);
    if (response.status === 204) cancelled.add(id);
    return response;
  });
  await vi.waitUntil(
    () => Math.min(minute.count(200), day.count(200), cancelled.size) >= ADMITTED_BEFORE,
    { timeout: 30_000, interval: 5 },
  );
  await service.end("SIGKILL");
  const loads = [minute, day, cancels];
  await Promise.all(loads.map((load) => load.stop()));
  // All three were in the middle of it, though some clients may have had their answer just then.
  for (const { failures } of loads) expect(failures.length).toBeGreaterThan(0);
  return {
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
  ] as const)("still counts every admission of the window of a %s", async (name, index) => {
    const { key } = name === "minute" ? minuteKey : dayKey;
    const first = await service.list(key);
    expect(first.headers.get("X-RateLimit-Reset")).toBe(before.windowEnds[index]);
    const more = await Promise.all(Array.from({ length: LIMIT }, () => service.list(key)));
    const after = [first, ...more].filter(({ status }) => status === 200).length;
    expect(before[name]).toBeLessThan(LIMIT);
    expect(before[name] + after).toBeLessThanOrEqual(LIMIT);
    // At most one request of each client was counted without an answer.
    expect(before[name] + after).toBeGreaterThanOrEqual(LIMIT - CLIENTS);
  });

  it("still bans a key, until the same time", async () => {
    const response = await service.list(keys.free);
    expect(await response.json()).toMatchObject({ status: 429, code: "api_key_banned" });
    expect(response.headers.get("X-RateLimit-Reset")).toBe(before.banEnd);
  });

  it("still knows every key", async () => {
    const { pro, business, enterprise } = keys;
    const answers = await Promise.all([pro, business, enterprise].map((key) => service.list(key)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  it("has every order, without those whose cancellation it acknowledged", async () => {
    const list: { id: number }[] = JSON.parse(await (await service.list(keys.pro)).text());
    const listed = new Set(list.map(({ id }) => id));
    expect(before.cancelled.size).toBeGreaterThanOrEqual(ADMITTED_BEFORE);
    expect([...before.cancelled].filter((id) => listed.has(id))).toEqual([]);
    const all = Array.from({ length: ORDERS }, (_, index) => FIRST_ID + index);
    expect(all.filter((id) => !listed.has(id) && !before.attempted.has(id))).toEqual([]);
    const [cancelled = NaN] = before.cancelled;
    expect((await service.cancel(keys.pro, cancelled)).status).toBe(404);
  });
});
