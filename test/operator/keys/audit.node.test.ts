import { hostname, userInfo } from "node:os";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { listKeyChanges } from "../../../src/operator/key-store/audit-trail.ts";
import { loadSampleStore } from "../../../src/operator/start/sample-store.ts";
import { openMemoryStore } from "../orders/memory-store.ts";
import { KeysCommand } from "./keys-command.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

let keys: KeysCommand;

beforeAll(async () => {
  keys = await KeysCommand.open();
});
beforeEach(() => {
  vi.stubEnv("STORE_ORDERS_ACTOR", "Ada");
});
afterEach(() => {
  vi.unstubAllEnvs();
});
afterAll(() => keys.close());

const changesOf = (keyId: string) => listKeyChanges(keys.database.orm, { keyId, limit: 100 });

describe("keys audit", () => {
  it("records the old and the new value of every change, and nothing if nothing changed", async () => {
    const create = ["create", "--plan", "pro", "--name", "Zoo", "--expires", "2099-01-31"];
    const { id, key: secret } = await keys.json(...create);
    const own = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "10000"];
    await keys.json("update", id, ...own, "--name", "Chain", "--expires", "never");
    await keys.json("update", id, "--name", "Chain", "--expires", "never");
    const { key: newerSecret, formerKeyEndsAt } = await keys.json("rotate", id);
    await keys.json("reset", id);
    const { revokedAt } = await keys.json("revoke", id);
    await keys.json("revoke", id);
    await keys.run("rotate", id);
    const expected = [
      { action: "revoke", details: { revokedAt: { from: null, to: revokedAt } } },
      { action: "reset", details: {} },
      { action: "rotate", details: { formerKeyEndsAt: { from: null, to: formerKeyEndsAt } } },
      {
        action: "update",
        details: {
          name: { from: "Zoo", to: "Chain" },
          plan: { from: "pro", to: "enterprise" },
          perMinute: { from: 300, to: 5 },
          expiresAt: { from: "2099-01-31T00:00:00.000Z", to: null },
        },
      },
      {
        action: "create",
        details: {
          name: { from: null, to: "Zoo" },
          plan: { from: null, to: "pro" },
          perMinute: { from: null, to: 300 },
          perDay: { from: null, to: 10_000 },
          expiresAt: { from: null, to: "2099-01-31T00:00:00.000Z" },
        },
      },
    ];
    const trail = await keys.json("audit", id);
    const common = { at: expect.stringMatching(TIME), actor: "Ada", keyId: id };
    expect(trail).toEqual(expected.map((change) => ({ ...common, ...change })));
    const stored = JSON.stringify(await changesOf(id));
    expect(stored).not.toMatch(/[0-9a-f]{64}/);
    for (const shown of [secret, newerSecret]) expect(stored).not.toContain(shown.slice(5));
    const table = await keys.text("audit", id);
    expect(table).toContain("name: Zoo → Chain, plan: pro → enterprise, perMinute: 300 → 5");
    expect(table).toContain("expiresAt: 2099-01-31 00:00 UTC → none");
  });

  it("shows the newest changes first, filtered by time, key and number", async () => {
    const { record: one } = await keys.add({ name: "One" }, { createdAt: new Date("2090-01-01") });
    await keys.add({ name: "Two" }, { createdAt: new Date("2090-01-02") });
    const names = async (...args: string[]) =>
      (await keys.json("audit", ...args)).map(({ details }: any) => details.name?.to);
    expect(await names("--since", "2090-01-01")).toEqual(["Two", "One"]);
    expect(await names("--since", "2090-01-01T00:00:00.001Z")).toEqual(["Two"]);
    expect(await names("--limit", "1")).toEqual(["Two"]);
    expect(await names(one.id, "--since", "2090-01-01")).toEqual(["One"]);
    expect(await keys.text("audit", "key_nobody")).toBe("No such changes are recorded.\n");
    expect(await keys.text("audit", "--limit", "1")).toContain("--limit");
  });

  it("records the demo keys of a new store", async () => {
    const store = { orders: openMemoryStore(), keys: keys.database };
    await loadSampleStore(store, "Ada", new Date("2091-01-01"));
    const filter = { since: new Date("2091-01-01"), limit: 100 };
    const changes = await listKeyChanges(keys.database.orm, filter);
    const entries = changes.map(({ actor, action, details }) => [
      actor,
      action,
      details["name"]?.to,
    ]);
    const plans = ["enterprise", "business", "pro", "free"];
    expect(entries).toEqual(plans.map((plan) => ["Ada", "create", `Demo ${plan}`]));
  });
});

describe("the actor", () => {
  it("is by default the user name and the host name", async () => {
    vi.stubEnv("STORE_ORDERS_ACTOR", "");
    const { record: key } = await keys.add();
    const actor = `${userInfo().username}@${hostname()}`;
    expect(await changesOf(key.id)).toEqual([expect.objectContaining({ actor })]);
  });

  it("must be a name", async () => {
    const { record: key } = await keys.add();
    vi.stubEnv("STORE_ORDERS_ACTOR", "a\nb");
    const { status, stderr } = await keys.run("revoke", key.id);
    expect(status).toBe(2);
    expect(stderr).toContain("STORE_ORDERS_ACTOR");
    expect(await changesOf(key.id)).toHaveLength(1);
  });
});
