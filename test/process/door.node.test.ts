import { setTimeout as wait } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";
import type { Server } from "../support/server.ts";
import { AMPLE, createKeys } from "./store-content.ts";
import { advanceClock, call, CLOCKED_SERVICE, ServedStore } from "./worker-server.ts";

const BINDINGS = {
  ORDERS: { entrypoint: "Orders", props: { actor: "shop" } },
  KEYS: { entrypoint: "ApiKeys", props: { actor: "portal" } },
  ESCAPES: { entrypoint: "ApiKeys", props: { actor: "\u001b[31m" } },
};

const store = new ServedStore();
let server: Server;
let key: string;

const start = async () => void (server = await store.serve(CLOCKED_SERVICE, {}, BINDINGS));
beforeAll(async () => {
  ({ key } = await createKeys(store.path, { key: AMPLE }));
  await start();
});

const orders = (method: string, ...args: unknown[]) => call(server, "ORDERS", method, ...args);
const keys = (method: string, ...args: unknown[]) => call(server, "KEYS", method, ...args);

async function request(secret: string, path = "", method = "GET") {
  const headers = { Authorization: `Bearer ${secret}` };
  const response = await fetch(`${server.url}/v1/store/orders${path}`, { method, headers });
  return { status: response.status, text: await response.text() };
}
const cancel = async (id: bigint | number) => (await request(key, `/${id}`, "DELETE")).status;
/** Places pending orders with consecutive ids. Returns the ids. */
async function placeRange(first: bigint, length: number): Promise<bigint[]> {
  const placed = Array.from({ length }, (_, index) => ({ id: first + BigInt(index) }));
  expect(await orders("place", placed)).toMatchObject({ new: length });
  return placed.map(({ id }) => id);
}
const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };

test("orders are placed, shipped and read with every digit, and the commands see the same", async () => {
  const shipDate = new Date("2026-11-20T08:30:00.125Z");
  const large = { id: INT64_MAX, petId: INT64_MIN, quantity: 0n, shipDate, complete: false };
  const placed = [large, { id: INT64_MIN }, { id: 7n, status: "shipped" }];
  expect(await orders("place", placed)).toEqual({ ok: true, ...counts, new: 3 });
  expect(await orders("place", placed)).toEqual({ ok: true, ...counts, unchanged: 3 });
  const changed = await orders("place", [large, { ...large, quantity: 2n }, { id: INT64_MIN }]);
  expect(changed).toEqual({ ok: true, ...counts, replaced: 1, unchanged: 1 });
  expect(await orders("ship", [INT64_MIN, INT64_MIN, 7n, 8n])).toEqual({
    ok: true,
    results: [
      { id: INT64_MIN, result: "shipped" },
      { id: INT64_MIN, result: "already_shipped" },
      { id: 7n, result: "already_shipped" },
      { id: 8n, result: "not_found" },
    ],
  });
  const pending = { ok: true, ...large, quantity: 2n, status: "pending" };
  expect(await orders("get", INT64_MAX)).toEqual(pending);
  expect(await orders("get", 8n)).toBe(null);
  const { stdout } = await store.orders(["export"]);
  expect(stdout.split("\n")).toEqual([
    `{"id":${INT64_MIN},"status":"shipped"}`,
    '{"id":7,"status":"shipped"}',
    `{"id":${INT64_MAX},"petId":${INT64_MIN},"quantity":2,"shipDate":"2026-11-20T08:30:00.125Z","complete":false,"status":"pending"}`,
    "",
  ]);
  expect((await request(key)).text).toContain(`{"id":${INT64_MAX},"petId":${INT64_MIN},`);
  const beganMs = Date.now();
  expect(await cancel(INT64_MAX)).toBe(204);
  const cancelled = await orders("get", INT64_MAX);
  const [{ id: keyId }] = await store.keysJson("list");
  const { cancelledAt } = cancelled;
  expect(cancelled).toEqual({ ...pending, status: "cancelled", cancelledAt, cancelledBy: keyId });
  expect(Math.abs(cancelledAt.getTime() - beganMs)).toBeLessThan(600_000);
  const { ok: _, ...heard } = cancelled;
  const { cancellations, next } = await orders("cancellations", { after: null });
  expect(cancellations).toEqual([heard]);
  const nothing = { ok: true, cancellations: [], next };
  expect(await orders("cancellations", { after: next })).toEqual(nothing);
  // Of several cancellations of an order, the last one counts.
  expect(await orders("place", [large])).toMatchObject({ new: 1 });
  expect(await orders("get", INT64_MAX)).toMatchObject({ status: "pending" });
  expect(await cancel(INT64_MAX)).toBe(204);
  const again = { quantity: large.quantity, status: "cancelled", cancelledBy: keyId };
  expect(await orders("get", INT64_MAX)).toMatchObject(again);
});

test("bad input and shipped orders are refused with the field, and nothing is placed", async () => {
  const before = (await store.orders(["export"])).stdout;
  const many = Array.from({ length: 1_001 }, (_, index) => ({ id: BigInt(index) }));
  for (const [method, input, message] of [
    ["place", [[{ id: 1n }, { id: 2 }]], /^orders\[1\]\.id: .*expected bigint/],
    ["place", [[{ id: 2n ** 63n }]], /^orders\[0\]\.id: .*expected bigint/],
    ["place", [[{ id: 1n, shipDate: "2026-11-20" }]], /^orders\[0\]\.shipDate: .*expected date/],
    ["place", [[{ id: 1n, shipDate: new Date("-000001-01-01") }]], /^orders\[0\]\.shipDate: /],
    ["place", [[{ id: 1n, status: "cancelled" }]], /^orders\[0\]\.status: /],
    ["place", [[{ id: 1n, color: 1 }]], /^orders\[0\]: .*"color"$/],
    ["place", [[5]], /^orders\[0\]: .*expected object/],
    ["place", [many], /^orders: .*<=1000 items$/],
    ["place", [[]], /^orders: .*>=1 items$/],
    ["place", [], /^orders: .*expected array/],
    ["ship", [["1"]], /^ids\[0\]: .*expected bigint/],
    ["get", [7], /^id: .*expected bigint/],
    ["cancellations", [{ after: -1n }], /^after: .*expected bigint/],
    ["cancellations", [{ limit: 1_001 }], /^limit: .*<=1000$/],
    ["cancellations", [5n], /expected object/],
  ] as const) {
    const refused = { ok: false, code: "invalid_input", message: expect.stringMatching(message) };
    expect(await orders(method, ...input), `${method} ${message}`).toEqual(refused);
  }
  expect(await orders("place", [{ id: 6n }, { id: 7n }])).toEqual({
    ok: false,
    code: "order_already_shipped",
    message: "orders[1]: order 7 has shipped, which cannot be turned back",
  });
  expect((await store.orders(["export"])).stdout).toBe(before);
});

test("of a shipping and a cancellation of one order, exactly one wins", async () => {
  const ids = await placeRange(10_000n, 300);
  const won = { ship: 0, cancel: 0 };
  // The longer call begins first by a part of its time, so that each wins some races.
  let shipMs = 0;
  const race = async (id: bigint, index: number) => {
    const beganMs = performance.now();
    const shipping = orders("ship", [id]).finally(() => (shipMs = performance.now() - beganMs));
    await wait((index / 8) * shipMs);
    const [{ results }, status] = await Promise.all([shipping, cancel(id)]);
    const { result } = results[0];
    expect([result, status]).toEqual(status === 204 ? ["not_found", 204] : ["shipped", 409]);
    won[status === 204 ? "cancel" : "ship"] += 1;
    expect((await orders("get", id)).status).toBe(status === 204 ? "cancelled" : "shipped");
  };
  for (let done = 0; done < 300; done += 10) {
    await Promise.all(ids.slice(done, done + 10).map(race));
  }
  expect(Math.min(won.ship, won.cancel), "each wins some races").toBeGreaterThan(0);
});

test("a reader hears of every cancellation once and in order, while eight clients cancel and the service restarts", async () => {
  const ids = await placeRange(20_000n, 500);
  let { next } = await orders("cancellations", { limit: 1_000 });
  const heard: bigint[] = [];
  const answered: bigint[] = [];
  let left = [...ids];
  for (let round = 1; round <= 2; round++) {
    const share = left.splice(0, 250);
    let isDone = false;
    const clients = Array.from({ length: 8 }, async () => {
      for (let id = share.pop(); id !== undefined; id = share.pop()) {
        expect(await cancel(id)).toBe(204);
        answered.push(id);
      }
    });
    const read = async () => {
      for (let isLast = false; !isLast;) {
        isLast = isDone;
        const page = await orders("cancellations", { after: next, limit: 50 });
        heard.push(...page.cancellations.map(({ id }: { id: bigint }) => id));
        if (page.cancellations.length > 0) isLast = false;
        ({ next } = page);
      }
    };
    await Promise.all([Promise.all(clients).then(() => void (isDone = true)), read()]);
    server.process.kill();
    await server[Symbol.asyncDispose]().catch(() => {});
    await start();
  }
  expect(heard).toHaveLength(500);
  expect(new Set(heard)).toEqual(new Set(ids));
  expect(new Set(answered)).toEqual(new Set(ids));
});

test("a list that is under way stays whole while orders are placed and shipped", async () => {
  const count = 40_000;
  const lines = Array.from({ length: count }, (_, n) => `{"id":${100_000 + n},"petId":${n}}`);
  await store.ordersJson(["import", "-"], lines.join("\n"));
  const headers = { Authorization: `Bearer ${key}` };
  const response = await fetch(`${server.url}/v1/store/orders`, { headers });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? "";
  for (let n = 0; n < 5; n++) {
    const placed = [{ id: 100_000n + BigInt(n * 9_000), petId: -1n }, { id: 300_000n + BigInt(n) }];
    expect(await orders("place", placed)).toMatchObject({ ok: true, new: 1, replaced: 1 });
    expect(await orders("ship", [placed[0]!.id])).toMatchObject({ ok: true });
    text += (await reader.read()).value ?? "";
  }
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  const list = JSON.parse(text) as { id: number; petId?: number }[];
  const old = list.filter(({ id }) => id >= 100_000 && id < 300_000);
  expect(old).toHaveLength(count);
  // Of one moment: all five replacements that it shows are the first ones.
  const replaced = old.filter(({ petId }) => petId === -1).length;
  expect(list.filter(({ id }) => id >= 300_000 && id < 400_000)).toHaveLength(replaced);
});

test("what the commands place and change, the door shows and goes on with", async () => {
  const imported = '{"id":41,"petId":7}\n{"id":42,"status":"shipped"}\n';
  await store.ordersJson(["import", "-"], imported);
  expect(await orders("get", 41n)).toEqual({ ok: true, id: 41n, petId: 7n, status: "pending" });
  expect((await orders("ship", [41n, 42n])).results).toEqual([
    { id: 41n, result: "shipped" },
    { id: 42n, result: "already_shipped" },
  ]);
  const refused = await store.orders(["import", "-"], imported);
  expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining("shipped")]);
  const named = ["--plan", "free", "--name", "Zoo"];
  const { id, key: secret } = await store.keysJson("create", ...named);
  expect((await request(secret)).status).toBe(200);
  expect(await keys("find", secret)).toMatchObject({ id, state: "active" });
  await store.keysJson("revoke", id);
  expect(await keys("rotate", id)).toMatchObject({ ok: false, code: "key_not_active" });
  await advanceClock(server, 30);
  expect((await request(secret)).status).toBe(401);
});

test("keys are created, found, changed and ended, and the trail names the binding's actor", async () => {
  const expiresAt = new Date("2099-01-31");
  const { id, key: secret } = await keys("create", { name: "Zoo", plan: "free", expiresAt });
  expect((await request(secret)).status).toBe(200);
  const record = await keys("get", id);
  expect(record).toMatchObject({ ok: true, id, name: "Zoo", plan: "free", perMinute: 60 });
  expect([record.expiresAt, record.state]).toEqual([expiresAt, "active"]);
  expect(await keys("find", secret)).toEqual(record);
  expect(await keys("find", "sord_mistyped")).toBe(null);
  expect(await keys("get", "key_nobody")).toBe(null);
  const own = { plan: "enterprise", perMinute: 7, perDay: 9, expiresAt: null };
  expect(await keys("update", id, own)).toEqual({ ...record, ...own });
  const { key: second } = await keys("rotate", id, { graceSeconds: 3_600 });
  expect((await request(second)).status).toBe(200);
  expect(await keys("find", secret)).toMatchObject({ id });
  const opened = { limit: 7, remaining: 6, resetsAt: expect.any(Date) };
  expect(await keys("quota", id)).toEqual({
    ok: true,
    keyId: id,
    plan: "enterprise",
    expiresAt: null,
    ban: null,
    retryAfterSeconds: 0,
    windows: [
      { name: "minute", ...opened, remaining: 5 },
      { name: "day", ...opened, limit: 9, remaining: 7 },
    ],
  });
  await request(second);
  const { windows } = await keys("quota", id);
  expect(windows, "as new as the isolate's last decision").toMatchObject([
    { remaining: 4 },
    { remaining: 6 },
  ]);
  expect(await keys("reset", id)).toMatchObject({ ok: true, id });
  expect(await keys("usage", id, { days: 3 })).toMatchObject({ ok: true, days: expect.any(Array) });
  const pages: string[] = [];
  for (let after: string | null = ""; after !== null;) {
    const page: { keys: { id: string }[]; next: string | null } = await keys("list", {
      after,
      limit: 1,
    });
    pages.push(...page.keys.map((each) => each.id));
    after = page.next;
  }
  const listed: { id: string }[] = await store.keysJson("list");
  expect(pages).toEqual(listed.map((each) => each.id).toSorted());
  expect(await keys("revoke", id)).toMatchObject({ state: "revoked" });
  await advanceClock(server, 30);
  for (const each of [secret, second]) expect((await request(each)).status).toBe(401);
  const trail: { actor: string; action: string }[] = await store.keysJson("audit", id);
  expect(trail.map(({ actor, action }) => `${actor} ${action}`)).toEqual(
    ["revoke", "reset", "rotate", "update", "create"].map((action) => `portal ${action}`),
  );
  expect(JSON.stringify([trail, listed, record])).not.toContain(secret.slice(5, -4));
});

test("a binding whose actor is no name changes no key", async () => {
  const before = await store.keysJson("list");
  expect(await call(server, "ESCAPES", "create", { name: "Zoo", plan: "free" })).toMatchObject({
    code: "invalid_input",
    message: expect.stringMatching(/^props\.actor of the service binding: expected 1 to 100/),
  });
  expect(await store.keysJson("list")).toEqual(before);
});

test("a key's change is refused with a code, and the message names the field", async () => {
  const { id } = await keys("create", { name: "Zoo", plan: "free" });
  const invalid = [
    [/^key\.name: expected 1 to 100 characters/, "create", { name: "\n", plan: "free" }],
    [/^key\.plan: .*expected one of "free"/, "create", { name: "Zoo", plan: "gold" }],
    [/^key\.perDay: .*>=1$/, "create", { name: "Zoo", plan: "enterprise", perDay: 0 }],
    [/^key\.name: .* no API key/, "create", { name: `of sord_${"a".repeat(40)}`, plan: "free" }],
    [/^settings\.expiresAt: .*expected date/, "update", id, { expiresAt: new Date(8.64e15) }],
    [/^options\.graceSeconds: .*>=0$/, "rotate", id, { graceSeconds: -1 }],
    [/^options\.days: .*>=1$/, "usage", id, { days: 0 }],
    [/^id: .*expected string/, "get", 5],
  ] as const;
  for (const [code, message, method, ...args] of [
    ...invalid.map((one) => ["invalid_input", ...one] as const),
    ["limits_missing", /perMinute/, "create", { name: "Zoo", plan: "enterprise", perDay: 9 }],
    ["limits_not_allowed", /free/, "update", id, { perMinute: 5 }],
    ["expiry_in_past", /2020/, "update", id, { expiresAt: new Date("2020-01-01") }],
    ["key_not_found", /no key/, "revoke", "key_nobody"],
    ["key_not_found", /no key/, "usage", "key_nobody"],
    ["key_not_found", /no key/, "quota", "key_nobody"],
  ] as const) {
    const refused = { ok: false, code, message: expect.stringMatching(message) };
    expect(await keys(method, ...args), `${method} ${message}`).toEqual(refused);
  }
  await keys("revoke", id);
  expect(await keys("rotate", id)).toMatchObject({ ok: false, code: "key_not_active" });
});

test("of 30 simultaneous changes of a key, each is made and is in the trail", async () => {
  const { id } = await keys("create", { name: "Zoo", plan: "free" });
  const resets = await Promise.all(Array.from({ length: 30 }, () => keys("reset", id)));
  expect(resets.filter(({ ok }) => ok)).toHaveLength(30);
  const trail: { action: string }[] = await store.keysJson("audit", id, "--limit", "100");
  expect(trail.filter(({ action }) => action === "reset")).toHaveLength(30);
});
