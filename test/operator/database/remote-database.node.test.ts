import { eq, type SQL, sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openRemoteDatabase } from "../../../src/operator/database/remote.ts";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { apiKeys } from "../../../src/schema/keys.ts";
import { orders } from "../../../src/schema/orders.ts";
import { findApiKey, listApiKeys } from "../../../src/operator/keys/key-changes.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { OpenStore } from "../store-folder.ts";
import { shortenPauses } from "../deploy/faults.ts";
import { ApiError } from "../deploy/route.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const local = new OpenStore();
const cloudflare = useFakeCloudflare("staging");
let orderDatabase: StoreDatabase;
let keyDatabase: StoreDatabase;

beforeAll(async () => {
  shortenPauses();
  // Cloudflare's search also finds longer names. Here, its first result is a wrong database.
  cloudflare.d1.create("old-store-orders-staging-orders");
  cloudflare.d1.databases.reverse();
  orderDatabase = await openRemoteDatabase({ env: "staging", name: "orders" });
  keyDatabase = await openRemoteDatabase({ env: "staging", name: "keys" });
});
beforeEach(() => {
  for (const [name, value] of Object.entries(cloudflare.environment)) vi.stubEnv(name, value);
  cloudflare.interfere = () => {};
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await local.close();
});

const databaseOf = (where: string, name: "orders" | "keys") =>
  where === "local" ? local.database(name) : name === "orders" ? orderDatabase : keyDatabase;

const insertOrder = (id: number, status = "pending"): SQL =>
  sql.raw(`REPLACE INTO orders (id, status) VALUES (${id}, '${status}')`);

describe.each(["local", "remote"])("the %s database", (where) => {
  const name = 'O\'Brien; DROP TABLE api_keys; -- "?" `x` [y]\r\n/* ☕ */';
  const key = {
    id: "key_a",
    hash: "0a",
    plan: "free",
    name,
    lastFour: "abcd",
    createdAt: new Date(1_795_000_000_123),
  } as const;

  it("inserts, selects and updates text with SQL syntax unchanged", async () => {
    const { orm } = await databaseOf(where, "keys");
    await orm.insert(apiKeys).values(key);
    expect(await findApiKey(orm, "key_a")).toMatchObject(key);
    const revokedAt = new Date(1_795_000_000_999);
    const revoked = await orm
      .update(apiKeys)
      .set({ revokedAt, revision: sql`${apiKeys.revision} -${-1}` })
      .where(eq(apiKeys.name, name))
      .returning({ name: apiKeys.name });
    expect(revoked).toEqual([{ name }]);
    expect(await listApiKeys(orm, {}, revokedAt)).toMatchObject([
      { ...key, revokedAt, revision: 1 },
    ]);
    expect(await findApiKey(orm, "none")).toBeUndefined();
  });

  it("reveals no SQL and no parameter in an error", async () => {
    const database = await databaseOf(where, "keys");
    const { orm } = database;
    const bad = { ...key, id: "key_b", hash: "f00d", lastFour: "12345" };
    for (const failing of [
      orm.insert(apiKeys).values(bad).then(),
      database.transaction([orm.insert(apiKeys).values(bad)]),
    ]) {
      const reason = await failing.then(() => "", String);
      expect(reason).toContain("last_four_is_no_more_of_the_key");
      expect(reason).not.toMatch(/insert into|f00d|12345/i);
    }
  });

  it.each([false, true])("changes all or nothing in a transaction (long: %s)", async (isLong) => {
    const database = await databaseOf(where, "orders");
    const failing = database.transaction([insertOrder(1), insertOrder(2, "lost")], { isLong });
    await expect(failing).rejects.toThrow(/status_is_known/);
    const ids = () => database.orm.all(sql`SELECT id FROM orders`);
    expect(await ids()).toEqual([]);
    // D1 skips a file that it has imported before.
    const files = new Set<string>();
    cloudflare.interfere = ({ path, body }) => {
      if (path.endsWith("/import")) expect(files.size).toBeLessThan(files.add(String(body)).size);
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
  const read = () => orderDatabase.orm.select().from(orders).then();
  const write = () => orderDatabase.transaction([insertOrder(7)]);
  const updateKeys = () => keyDatabase.orm.update(apiKeys).set({ lastFour: "abcd" }).then();
  const storeOnce = () =>
    orderDatabase.orm.insert(orders).values({ id: 7n }).onConflictDoNothing().then();

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

  it.each([write, updateKeys])("of a write that may have happened is not retried", async (work) => {
    for (const error of [lost, new ApiError(503, 10_000, "Service unavailable")]) {
      const queries = failFirst(1, error);
      await expect(work()).rejects.toThrow("not known whether the change was made");
      expect(queries()).toBe(1);
    }
  });
});

it("an error says what to do if the database or a migration is missing, or the login does not fit", async () => {
  const reason = async (env: "staging" | "production") => {
    const database = await openRemoteDatabase({ env, name: "keys" });
    return database.orm.select().from(apiKeys).then(String, String);
  };
  expect(await reason("production")).toContain("npm run deploy -- --env production");
  cloudflare.d1.create("store-orders-production-keys");
  expect(await reason("production")).toMatch(/missing .*run `npm run deploy -- --env production`/);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "wrong");
  expect(await reason("staging")).toMatch(/Authentication error .*`npx wrangler login`/);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", cloudflare.environment["CLOUDFLARE_API_TOKEN"]);
  vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", undefined);
  expect(await reason("staging")).not.toContain("accounts");
  cloudflare.accounts.push({ id: "other", name: "Zoo" });
  expect(await reason("staging")).toContain("has 2 accounts: set CLOUDFLARE_ACCOUNT_ID");
});
