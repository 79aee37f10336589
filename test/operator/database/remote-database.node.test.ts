import { eq, type SQL, sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { openRemoteDatabase } from "../../../src/operator/database/remote.ts";
import type { StoreDatabase } from "../../../src/store/database.ts";
import { apiKeys } from "../../../src/schema/keys.ts";
import { orders } from "../../../src/schema/orders.ts";
import { createApiKey } from "../../../src/store/keys/key-settings.ts";
import { findApiKey } from "../../../src/store/keys/find-keys.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { runRealWrangler, useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { StoreFolder } from "../store-folder.ts";
import { ApiError } from "../deploy/route.ts";
import type { DatabaseName } from "../../../src/schema/databases.ts";

const cloudflare = useFakeCloudflare("staging");
const folder = new StoreFolder();
const opened = new DisposableStack();
let stores: Record<string, Record<DatabaseName, StoreDatabase>>;

beforeAll(async () => {
  // Cloudflare's search also finds longer names. Here, its first result is a wrong database.
  cloudflare.d1.create("old-store-orders-staging-orders");
  cloudflare.d1.databases.reverse();
  const remote = (name: DatabaseName) => openRemoteDatabase({ env: "staging", name });
  const local = async (name: DatabaseName) =>
    opened.use(await openLocalDatabase(folder.path, name));
  stores = {
    local: { orders: await local("orders"), keys: await local("keys") },
    remote: { orders: remote("orders"), keys: remote("keys") },
  };
});
beforeEach(() => void (cloudflare.interfere = () => {}));
afterAll(() => opened.dispose());

const insertOrder = (id: number, status = "pending"): SQL =>
  sql.raw(`REPLACE INTO orders (id, status) VALUES (${id}, '${status}')`);

describe.each(["local", "remote"])("the %s database", (where) => {
  const name = 'O\'Brien; DROP TABLE api_keys; -- "?" `x` [y]\r\n/* ☕ */';
  const key = createApiKey({ name, plan: "free" }, new Date(1_795_000_000_123)).record;

  it("inserts, selects and updates text with SQL syntax unchanged", async () => {
    const { orm } = stores[where]!.keys;
    await orm.insert(apiKeys).values(key);
    expect(await findApiKey(orm, key.id)).toEqual(key);
    const revokedAt = new Date(1_795_000_000_999);
    const changes = { revokedAt, revision: sql`${apiKeys.revision} -${-1}` };
    await orm.update(apiKeys).set(changes).where(eq(apiKeys.name, name));
    expect(await findApiKey(orm, key.id)).toEqual({ ...key, revokedAt, revision: 1 });
    expect(await findApiKey(orm, "none")).toBeUndefined();
  });

  it.each([false, true])("changes all or nothing in a transaction (long: %s)", async (isLong) => {
    const database = stores[where]!.orders;
    const failing = database.transaction([insertOrder(1), insertOrder(2, "lost")], { isLong });
    await expect(failing).rejects.toThrow(/status_is_known/);
    const ids = () => database.orm.all(sql`SELECT id FROM orders`);
    expect(await ids()).toEqual([]);
    // D1 skips a file that it has imported before.
    const files = new Set<string>();
    cloudflare.interfere = ({ path, body }) => {
      if (!path.endsWith("/import")) return;
      if (files.has(String(body))) throw new Error("skipped");
      files.add(String(body));
    };
    for (let times = 0; times < 2; times += 1) {
      await database.transaction([insertOrder(1)], { isLong });
      expect(await ids()).toEqual([[1]]);
      await database.transaction([sql`DELETE FROM orders`]);
    }
  });
});

describe("a transient failure", () => {
  const lost = new ApiError(500, 7500, "Network connection lost.");
  const overloaded = new ApiError(503, 7500, "D1 DB is overloaded. Requests queued for too long.");
  const limited = new ApiError(429, 10_000, "Too many requests");
  const orm = () => stores["remote"]!.orders.orm;
  const read = () => orm().select().from(orders).then();
  const write = () => stores["remote"]!.orders.transaction([insertOrder(7)]);
  const update = () => orm().update(orders).set({ quantity: 1n }).then();
  const storeOnce = () => orm().insert(orders).values({ id: 7n }).onConflictDoNothing().then();

  /** Fails the first queries. Returns how many there were. */
  function failFirst(failures: number, error: Error): () => number {
    let queries = 0;
    cloudflare.interfere = ({ path }) => {
      if (!path.endsWith("/raw")) return;
      queries += 1;
      if (queries <= failures) throw error;
    };
    return () => queries;
  }

  it.each([
    ["a read", lost, read],
    ["an idempotent write", lost, storeOnce],
    ["a write that never began", overloaded, write],
    ["a write that never began", limited, write],
  ])("of %s is retried six times: %s", async (_, error, work) => {
    const queries = failFirst(6, error);
    await work();
    expect(queries()).toBe(7);
    failFirst(7, error);
    await expect(work()).rejects.toThrow(/^(?![^]*not known whether)/);
  });

  it.each([write, update])("of a write that may have happened is not retried", async (work) => {
    for (const error of [lost, new ApiError(503, 10_000, "Service unavailable")]) {
      const queries = failFirst(1, error);
      await expect(work()).rejects.toThrow("not known whether the change was made");
      expect(queries()).toBe(1);
    }
  });
});

it("says why a long transaction failed in the real wrangler", async () => {
  vi.mocked(wrangler.runWrangler).mockImplementationOnce(runRealWrangler);
  cloudflare.interfere = ({ path }) => {
    if (path.endsWith("/import")) throw new ApiError(400, 7500, "status_is_known");
  };
  const failing = stores["remote"]!.orders.transaction([insertOrder(1)], { isLong: true });
  await expect(failing).rejects.toThrow(/status_is_known \[code: 7500\]$/);
});

it("says what to do if a database or a migration is missing, or a token is wrong", async () => {
  const reason = async (env: "staging" | "production") => {
    const database = openRemoteDatabase({ env, name: "keys" });
    return database.orm.select().from(apiKeys).then(String, String);
  };
  expect(await reason("production")).toContain("npm run deploy -- --env production");
  cloudflare.d1.create("store-orders-production-keys");
  expect(await reason("production")).toMatch(/missing .*run `npm run deploy -- --env production`/);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "wrong");
  expect(await reason("staging")).toMatch(/Authentication error .*`npx wrangler login`/);
});
