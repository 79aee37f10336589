import { DatabaseSync } from "node:sqlite";
import { setTimeout as wait } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { databaseFile } from "../../src/operator/database/local-store.ts";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";
import type { Server } from "../support/server.ts";
import { AMPLE, createKeys } from "./store-content.ts";
import { advanceClock, call, CLOCKED_SERVICE, ServedStore } from "./worker-server.ts";

const ORDERS = { entrypoint: "Orders", actor: "shop" } as const;
const KEYS = { entrypoint: "ApiKeys", actor: "portal" } as const;
const ESCAPES = { ...KEYS, actor: "\u001b[31m" };

const store = new ServedStore();
const { key } = await createKeys(store.path, { key: AMPLE });
let server: Server;

const start = async () => void (server = await store.serve(CLOCKED_SERVICE));
beforeAll(start);

const orders = (method: string, ...args: unknown[]) => call(server, ORDERS, method, ...args);
const keys = (method: string, ...args: unknown[]) => call(server, KEYS, method, ...args);

const cancel = async (id: bigint) => (await server.request(key, `/${id}`, "DELETE")).status;
const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };

test("orders are placed, shipped and read with every digit, and the commands see the same", async () => {
  const shipDate = new Date("2026-11-20T08:30:00.125Z");
  const large = { id: INT64_MAX, petId: INT64_MIN, quantity: 0n, shipDate, complete: false };
  const none = { ok: true, cancellations: [], next: 0n };
  expect(await orders("cancellations")).toEqual(none);
  const near = { id: INT64_MAX - 1n };
  const placed = [large, near, { id: INT64_MIN }, { id: 7n, status: "shipped" }];
  expect(await orders("place", placed)).toEqual({ ok: true, ...counts, new: 4 });
  expect(await orders("place", placed)).toEqual({ ok: true, ...counts, unchanged: 4 });
  const changed = await orders("place", [large, { ...large, quantity: 2n }, { id: INT64_MIN }]);
  expect(changed).toEqual({ ok: true, ...counts, replaced: 1, unchanged: 1 });
  expect(await orders("ship", [INT64_MIN, INT64_MIN, INT64_MIN + 1n, 7n, 8n])).toEqual({
    ok: true,
    results: [
      { id: INT64_MIN, result: "shipped" },
      { id: INT64_MIN, result: "already_shipped" },
      { id: INT64_MIN + 1n, result: "not_found" },
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
    `{"id":${near.id},"status":"pending"}`,
    `{"id":${INT64_MAX},"petId":${INT64_MIN},"quantity":2,"shipDate":"2026-11-20T08:30:00.125Z","complete":false,"status":"pending"}`,
    "",
  ]);
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
  expect(await orders("cancellations", { after: next })).toEqual({ ...none, next });
  // Of several cancellations of an order, the last one counts.
  expect(await orders("place", [large])).toMatchObject({ new: 1 });
  expect(await orders("get", INT64_MAX)).toMatchObject({ status: "pending" });
  expect(await cancel(INT64_MAX)).toBe(204);
  const again = { quantity: large.quantity, status: "cancelled", cancelledBy: keyId };
  expect(await orders("get", INT64_MAX)).toMatchObject(again);
});

test("of a shipping and a cancellation of one order exactly one wins, and a reader hears of every cancellation once, while eight clients cancel and the service restarts", async () => {
  const placed = Array.from({ length: 500 }, (_, index) => ({ id: 20_000n + BigInt(index) }));
  expect(await orders("place", placed)).toMatchObject({ new: 500 });
  let { next } = await orders("cancellations", { limit: 1_000 });
  const cancelled: bigint[] = [];
  const heard: bigint[] = [];
  // The longer call begins first by a part of its time, so that each wins some races.
  let cancelMs = 0;
  for (const share of [placed.splice(0, 250), placed.splice(0, 250)]) {
    let isDone = false;
    const clients = Array.from({ length: 8 }, async (_, index) => {
      for (let one = share.pop(); one !== undefined; one = share.pop()) {
        const { id } = one;
        const beganMs = performance.now();
        const cancelling = cancel(id).finally(() => (cancelMs = performance.now() - beganMs));
        await wait((index / 8) * cancelMs);
        const [{ results }, status] = await Promise.all([orders("ship", [id]), cancelling]);
        const outcome = [status, results[0].result, (await orders("get", id)).status].join(" ");
        expect(["204 not_found cancelled", "409 shipped shipped"]).toContain(outcome);
        if (status === 204) cancelled.push(id);
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
    await server.kill();
    await start();
  }
  expect(heard.toSorted()).toEqual(cancelled.toSorted());
  expect([0, 500], "each wins some races").not.toContain(heard.length);
});

test("keys are created, found, changed, also by 30 calls at once, and ended, and the trail names the binding's actor", async () => {
  const expiresAt = new Date("2099-01-31");
  const own = { name: "Zoo", plan: "enterprise", perMinute: 7, perDay: 9, expiresAt };
  const { id, key: secret } = await keys("create", { ...own, near: "weur" });
  expect((await server.request(secret)).status).toBe(200);
  const record = await keys("get", id);
  expect(record).toEqual({
    ...own,
    ok: true,
    id,
    locationHint: "weur",
    createdAt: expect.any(Date),
    lastFour: secret.slice(-4),
    state: "active",
    formerKeyEndsAt: null,
    revokedAt: null,
    bannedUntil: null,
  });
  expect(await keys("find", secret)).toEqual(record);
  expect(await keys("find", "sord_mistyped")).toBe(null);
  expect(await keys("get", "key_nobody")).toBe(null);
  for (const left of [6, 5]) {
    const quota = await keys("quota", id);
    expect(quota.windows, "as new as the isolate's last decision").toMatchObject([
      { name: "minute", limit: 7, remaining: left, resetsAt: expect.any(Date) },
      { name: "day", limit: 9, remaining: left + 2, resetsAt: expect.any(Date) },
    ]);
    const headers = { Authorization: `Bearer ${secret}` };
    const looked: any = await (await fetch(`${server.url}/v1/quota`, { headers })).json();
    expect(JSON.parse(JSON.stringify(quota))).toEqual({ ok: true, ...looked });
    await server.request(secret);
  }
  const changed = { ...record, perMinute: 8, expiresAt: null };
  expect(await keys("update", id, { perMinute: 8, expiresAt: null })).toEqual(changed);
  const { key: second } = await keys("rotate", id, { graceSeconds: 3_600 });
  expect((await server.request(second)).status).toBe(200);
  expect(await keys("find", secret)).toMatchObject({ id });
  const resets = await Promise.all(Array.from({ length: 30 }, () => keys("reset", id)));
  expect(resets).toMatchObject(resets.map(() => ({ ok: true, id })));
  const rotated = await Promise.all(Array.from({ length: 5 }, () => keys("rotate", id)));
  const found = await Promise.all(rotated.map((each) => keys("find", each.key)));
  expect(found, "each secret was stored").toMatchObject(rotated.map(() => ({ id })));
  const listed: { id: string }[] = await store.keysJson("list");
  const ids = listed.map((each) => each.id).toSorted();
  const [one, ...others] = await Promise.all(ids.map((each) => keys("get", each)));
  const list = async (input: object) => {
    const page = await keys("list", input);
    return [page.keys.map((each: object) => ({ ok: true, ...each })), page.next];
  };
  expect(await list({ limit: 1 })).toEqual([[one], one.id]);
  expect(others).not.toEqual([]);
  expect(await list({ after: one.id })).toEqual([others, null]);
  expect(await keys("revoke", id)).toMatchObject({ state: "revoked" });
  await advanceClock(server, 30);
  for (const each of [secret, second]) expect((await server.request(each)).status).toBe(401);
  const trail: { actor: string }[] = await store.keysJson("audit", id, "--limit", "100");
  const atOnce = [...rotated.map(() => "rotate"), ...resets.map(() => "reset")];
  const actions = ["revoke", ...atOnce, "rotate", "update", "create"];
  expect(trail).toMatchObject(actions.map((action) => ({ action, actor: "portal" })));
  expect(JSON.stringify([trail, listed, record])).not.toContain(secret.slice(5, -4));
});

test("bad input and what a state forbids is refused with a code and the field, and changes nothing", async () => {
  const { id } = await keys("create", { name: "Zoo", plan: "free" });
  await orders("place", [{ id: 7n, status: "shipped" }]);
  const exported = async () => (await store.orders(["export"])).stdout;
  const contents = () => Promise.all([exported(), store.keysJson("list")]);
  const before = await contents();
  const many = Array.from({ length: 1_001 }, (_, index) => ({ id: BigInt(index) }));
  const invalid = [
    [/^orders\[1\]\.id: .*expected bigint/, "place", [{ id: 1n }, { id: 2 }]],
    [/^orders\[0\]\.id: .*expected bigint/, "place", [{ id: 2n ** 63n }]],
    [/^orders\[0\]\.petId: .*bigint/, "place", [{ id: 1n, petId: -(2n ** 63n) - 1n }]],
    [/^orders\[0\]\.shipDate: .*expected date/, "place", [{ id: 1n, shipDate: "2026-11-20" }]],
    [/^orders\[0\]\.shipDate: /, "place", [{ id: 1n, shipDate: new Date("-000001-01-01") }]],
    [/^orders\[0\]\.status: /, "place", [{ id: 1n, status: "cancelled" }]],
    [/^orders\[0\]: .*"color"$/, "place", [{ id: 1n, color: 1 }]],
    [/^orders\[0\]: .*expected object/, "place", [5]],
    [/^orders: .*<=1000 items$/, "place", many],
    [/^orders: .*>=1 items$/, "place", []],
    [/^orders: .*expected array/, "place"],
    [/^ids\[0\]: .*expected bigint/, "ship", ["1"]],
    [/^ids: .*<=1000 items$/, "ship", many.map(({ id: one }) => one)],
    [/^id: .*expected bigint/, "get", 7],
    [/^after: .*expected bigint/, "cancellations", { after: -1n }],
    [/^after: .*expected bigint/, "cancellations", { after: 2n ** 53n }],
    [/^limit: .*<=1000$/, "cancellations", { limit: 1_001 }],
    [/expected object/, "cancellations", 5n],
  ] as const;
  const invalidKeys = [
    [/^key\.name: expected 1 to 100 characters/, "create", { name: "\n", plan: "free" }],
    [/^key\.plan: .*expected one of "free"/, "create", { name: "Zoo", plan: "gold" }],
    [/^key\.perDay: .*>=1$/, "create", { name: "Zoo", plan: "enterprise", perDay: 0 }],
    [/^key\.name: .* no API key/, "create", { name: `of sord_${"a".repeat(40)}`, plan: "free" }],
    [/^settings\.expiresAt: .*expected date/, "update", id, { expiresAt: new Date(8.64e15) }],
    [/^key\.near: .*"weur"/, "create", { name: "Zoo", plan: "free", near: "moon" }],
    [/^key: .*"color"$/, "create", { name: "Zoo", plan: "free", color: 1 }],
    [/^options\.graceSeconds: .*>=0$/, "rotate", id, { graceSeconds: -1 }],
    [/^options\.graceSeconds: .*<=7776000$/, "rotate", id, { graceSeconds: 90 * 86_400 + 1 }],
    [/^options\.days: .*>=1$/, "usage", id, { days: 0 }],
    [/^options\.days: .*<=366$/, "usage", id, { days: 367 }],
    [/^id: .*<=100 characters$/, "get", "k".repeat(101)],
    [/^id: .*expected string/, "get", 5],
  ] as const;
  const shipped = /^orders\[1\]: order 7 has shipped, which cannot be turned back$/;
  const actor = /^props\.actor of the service binding: expected 1 to 100/;
  for (const [binding, code, message, method, ...args] of [
    ...invalid.map((one) => [ORDERS, "invalid_input", ...one] as const),
    [ORDERS, "order_already_shipped", shipped, "place", [{ id: 6n }, { id: 7n }]],
    ...invalidKeys.map((one) => [KEYS, "invalid_input", ...one] as const),
    [KEYS, "limits_missing", /perMinute/, "create", { name: "A", plan: "enterprise", perDay: 9 }],
    [KEYS, "limits_not_allowed", /free/, "update", id, { perMinute: 5 }],
    [KEYS, "expiry_in_past", /2020/, "update", id, { expiresAt: new Date("2020-01-01") }],
    [KEYS, "key_not_found", /no key/, "revoke", "key_nobody"],
    [KEYS, "key_not_found", /no key/, "usage", "key_nobody"],
    [KEYS, "key_not_found", /no key/, "quota", "key_nobody"],
    [ESCAPES, "invalid_input", actor, "create", { name: "Zoo", plan: "free" }],
  ] as const) {
    const refused = { ok: false, code, message: expect.stringMatching(message) };
    expect(await call(server, binding, method, ...args), `${method} ${message}`).toEqual(refused);
  }
  expect(await contents()).toEqual(before);
  await keys("revoke", id);
  expect(await keys("rotate", id)).toMatchObject({ ok: false, code: "key_not_active" });
});

test("a fault of a call is logged with its cause, which the caller does not learn", async () => {
  using sqlite = new DatabaseSync(databaseFile(store.path, "orders"));
  sqlite.exec(`CREATE TRIGGER broken BEFORE INSERT ON orders WHEN NEW.id = 13
    BEGIN SELECT RAISE(ABORT, 'broken'); END`);
  await expect(orders("place", [{ id: 13n }])).rejects.toThrow(/^(?!.*broken).*its log/);
  const hasty = await store.serve(CLOCKED_SERVICE, { DATABASE_TIMEOUT_MS: "1" });
  using busy = new DatabaseSync(databaseFile(store.path, "keys"));
  busy.exec("BEGIN IMMEDIATE");
  const late = call(hasty, KEYS, "create", { name: "Zoo", plan: "free" });
  await expect(late).rejects.toThrow(/cannot reach its database.*call again/);
  for (const [{ url }, event, error] of [
    [server, "internal_error", "broken"],
    [hasty, "keys_database_unavailable", ""],
  ] as const) {
    const lines: [string][] = await (await fetch(`${url}/log`)).json();
    expect(lines.map(([line]) => JSON.parse(line))).toContainEqual(
      expect.objectContaining({ event, error: expect.stringContaining(error) }),
    );
  }
});
