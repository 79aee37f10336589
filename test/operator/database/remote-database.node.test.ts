import { eq, type SQL, sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openRemoteDatabase } from "../../../src/operator/database/remote.ts";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import type { RemoteEnvironment } from "../../../src/operator/arguments.ts";
import { exact } from "../../../src/schema/int64.ts";
import { apiKeys } from "../../../src/schema/keys.ts";
import { orders } from "../../../src/schema/orders.ts";
import { findApiKey, listApiKeys } from "../../../src/operator/keys/key-changes.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { exportPages } from "../../../src/operator/orders/export.ts";
import { OpenStore } from "../store-folder.ts";
import { shortenPauses } from "../deploy/faults.ts";
import { ApiError } from "../deploy/route.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const local = new OpenStore();
afterAll(() => local.close());
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
  cloudflare.changes.length = 0;
});
afterAll(() => vi.unstubAllGlobals());

/** Makes the first queries fail. Returns a function that returns the number of queries so far. */
function failWith(...errors: ApiError[]): () => number {
  let asked = 0;
  cloudflare.interfere = ({ path }) => {
    if (!path.endsWith("/raw")) return;
    asked += 1;
    const error = errors.shift();
    if (error !== undefined) throw error;
  };
  return () => asked;
}

const insertOrder = (id: number, status = "pending"): SQL =>
  sql.raw(`REPLACE INTO orders (id, status) VALUES (${id}, '${status}')`);

/** Returns the first column of a query on the SQLite database of the fake account. */
function stored(query: string): string[] {
  const rows = cloudflare.d1.find("store-orders-staging-orders").sqlite.prepare(query).all();
  return rows.map((row) => String(Object.values(row)[0]));
}

const orderIds = () => stored("SELECT id || '' FROM orders ORDER BY id");

describe("the remote database", () => {
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
    const { orm } = keyDatabase;
    await orm.insert(apiKeys).values(key);
    const limits = { perMinute: null, perDay: null };
    const times = { expiresAt: null, revokedAt: null, formerKeyEndsAt: null, bannedUntil: null };
    const record = { ...key, ...limits, ...times, locationHint: null, revision: 0, resets: 0 };
    expect(await findApiKey(orm, "key_a")).toEqual(record);
    const revokedAt = new Date(1_795_000_000_999);
    const revoked = await orm
      .update(apiKeys)
      .set({ revokedAt, revision: sql`${apiKeys.revision} - ${-1}` })
      .where(eq(apiKeys.name, name))
      .returning({ name: apiKeys.name });
    expect(revoked).toEqual([{ name }]);
    expect(await listApiKeys(orm, {}, revokedAt)).toEqual([{ ...record, revokedAt, revision: 1 }]);
    expect(await findApiKey(orm, "none")).toBeUndefined();
  });

  it.each(["local", "remote"])("stores and returns int64 values exactly: %s", async (where) => {
    const database = where === "remote" ? orderDatabase : await local.database("orders");
    const near = [2n ** 53n, 2n ** 63n - 1n].flatMap((edge) => [edge - 1n, edge, -edge]);
    const ids = [...near, -(2n ** 63n)].toSorted((one, other) => (one < other ? -1 : 1));
    await database.transaction(
      ids.map((id) => database.orm.insert(orders).values({ id, petId: id })),
    );
    for (const id of ids) {
      const found = await database.orm
        .select({ id: exact(orders.id), petId: exact(orders.petId) })
        .from(orders)
        .where(eq(orders.id, id));
      expect(found).toEqual([{ id, petId: id }]);
    }
    let exported = "";
    for await (const { lines } of exportPages(database)) exported += lines;
    expect(exported).toBe(
      ids.map((id) => `{"id":${id},"petId":${id},"status":"pending"}\n`).join(""),
    );
    await database.orm.delete(orders);
  });

  it.each(["local", "remote"])("reveals no SQL and no parameter in an error: %s", async (where) => {
    const database = where === "remote" ? keyDatabase : await local.database("keys");
    const { orm } = database;
    const bad = { ...key, id: "key_b", hash: "f00d", lastFour: "12345" };
    const failing = [
      orm.insert(apiKeys).values(bad).then(),
      database.transaction([orm.insert(apiKeys).values(bad)]),
    ];
    for (const settled of await Promise.allSettled(failing)) {
      const reason = settled.status === "rejected" ? String(settled.reason) : "";
      expect(reason).toContain("last_four_is_no_more_of_the_key");
      expect(reason).not.toMatch(/insert into|f00d|12345/i);
    }
  });
});

describe("a transaction", () => {
  it("that fails changes nothing and says why", async () => {
    const failing = [insertOrder(1, "shipped"), insertOrder(2, "lost")];
    await expect(orderDatabase.transaction(failing)).rejects.toThrow(
      /staging orders database: .*status_is_known/,
    );
    expect(orderIds()).toEqual([]);
  });

  it("that is long is imported as a new file each time, completely or not at all", async () => {
    const isLong = { isLong: true };
    const failing = orderDatabase.transaction([insertOrder(1), insertOrder(2, "lost")], isLong);
    await expect(failing).rejects.toThrow("status_is_known");
    expect(orderIds()).toEqual([]);
    for (let times = 0; times < 2; times += 1) {
      await orderDatabase.transaction([insertOrder(1)], isLong);
      expect(orderIds()).toEqual(["1"]);
      await orderDatabase.transaction([sql`DELETE FROM orders`]);
    }
    const withText = orderDatabase.transaction([sql`SELECT ${"text"}`], isLong);
    await expect(withText).rejects.toThrow("must not have text parameters");
  });
});

describe("a transient failure", () => {
  const lost = new ApiError(500, 7500, "Network connection lost.");
  const overloaded = new ApiError(503, 7500, "D1 DB is overloaded. Requests queued for too long.");
  const starting = new ApiError(500, 7500, "Failed while starting up D1 DB storage.");
  const limited = new ApiError(429, 10_000, "Too many requests");
  const read = () => orderDatabase.orm.select().from(orders);
  const write = () => orderDatabase.transaction([insertOrder(7)]);
  const updateKeys = () => keyDatabase.orm.update(apiKeys).set({ lastFour: "abcd" }).then();
  const storeOnce = () =>
    orderDatabase.orm.insert(orders).values({ id: 7n }).onConflictDoNothing().then();

  it.each([
    ["a read", 6, lost, read],
    ["a read", 4, limited, read],
    ["a write that never began", 4, overloaded, write],
    ["a write that never began", 4, starting, write],
    ["a write that never began", 4, limited, write],
    ["an idempotent write", 6, lost, storeOnce],
  ])("of %s is followed by up to %i retries: %s", async (_, retries, error, work) => {
    const asked = failWith(...Array<ApiError>(retries).fill(error));
    await work();
    expect(asked()).toBe(retries + 1);
  });

  it("of a read does not suggest that a change was made", async () => {
    failWith(...Array<ApiError>(7).fill(lost));
    const message = expect.stringMatching(/connection lost(?![^]*not known)/);
    await expect(read()).rejects.toMatchObject({ message });
  });

  it.each([
    ["the connection is lost", lost, write],
    ["the connection is lost", lost, updateKeys],
    ["Cloudflare is unavailable", new ApiError(503, 10_000, "Service unavailable"), write],
  ])("of a write that may have happened is not followed by a retry: %s", async (_, error, work) => {
    const asked = failWith(error);
    await expect(work()).rejects.toThrow("not known whether the change was made");
    expect(asked()).toBe(1);
    expect(orderIds()).toEqual(["7"]);
  });
});

describe("an error says what to do", () => {
  const reason = async (env: RemoteEnvironment) => {
    const database = await openRemoteDatabase({ env, name: "keys" });
    const [read] = await Promise.allSettled([database.orm.select().from(apiKeys)]);
    return read.status === "rejected" ? String(read.reason) : undefined;
  };

  it("if migrations are missing", async () => {
    cloudflare.d1.create("store-orders-production-keys");
    expect(await reason("production")).toMatch(
      /migrations are missing \(no such table: api_keys.*run `npm run deploy -- --env production` first/,
    );
  });

  it("if the API token is wrong", async () => {
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "wrong");
    expect(await reason("staging")).toMatch(
      /Authentication error .* check the login \(`npx wrangler login`\)/,
    );
  });

  it("if the login has several accounts", async () => {
    vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", undefined);
    expect(await reason("staging")).toBeUndefined();
    cloudflare.accounts.push({ id: "other", name: "Zoo" });
    expect(await reason("staging")).toContain("has 2 accounts: set CLOUDFLARE_ACCOUNT_ID");
  });
});
