import { readFileSync } from "node:fs";
import { type SQL, sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openRemoteDatabase } from "../../../src/operator/database/remote.ts";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import type { RemoteEnvironment } from "../../../src/operator/arguments.ts";
import { assign, insertInto } from "../../support/row.ts";
import { findApiKey, listApiKeys } from "../../../src/operator/key-store/key-details.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { shortenPauses } from "../deploy/faults.ts";
import { ApiError } from "../deploy/route.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

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
    if (!path.endsWith("/query")) return;
    asked += 1;
    const error = errors.shift();
    if (error !== undefined) throw error;
  };
  return () => asked;
}

const insertOrder = (id: string, status = "pending"): SQL =>
  sql`REPLACE INTO orders (id, status) VALUES (CAST(${id} AS INTEGER), ${status})`;

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
    lastFour: "abcd",
    plan: "free",
    name,
    createdAt: new Date(1_795_000_000_123),
  } as const;

  it("inserts, selects and updates text with SQL syntax unchanged", async () => {
    await keyDatabase.all(insertInto("api_keys", key));
    const limits = { perMinute: null, perDay: null };
    const times = { expiresAt: null, revokedAt: null, formerKeyEnds: [], bannedUntil: null };
    const unset = { ...limits, ...times, locationHint: null };
    const record = { ...key, ...unset, revision: 0, resets: 0 };
    expect(await findApiKey(keyDatabase.orm, "key_a")).toEqual(record);

    const revokedAt = new Date(1_795_000_000_999);
    const revoked = await keyDatabase.all(sql`
      UPDATE api_keys SET ${assign({ revokedAt, revision: sql`revision + 1` })}
      WHERE id = ${key.id} AND name = ${name} RETURNING name`);
    expect(revoked).toEqual([{ name }]);
    expect(await listApiKeys(keyDatabase.orm, {}, revokedAt)).toEqual([
      { ...record, revokedAt, revision: 1 },
    ]);
    expect(await findApiKey(keyDatabase.orm, "none")).toBeUndefined();
  });

  it("stores and returns int64 values exactly", async () => {
    const extremes = [-(2n ** 63n), 2n ** 63n - 1n];
    const rows = extremes.map((id) => insertInto("orders", { id, petId: id }));
    await orderDatabase.transaction(rows);
    const asText = sql`SELECT id || '' AS id, pet_id || '' AS petId FROM orders ORDER BY id`;
    const expected = extremes.map((id) => ({ id: String(id), petId: String(id) }));
    expect(await orderDatabase.all(asText)).toEqual(expected);
    await orderDatabase.all(sql`DELETE FROM orders`);
    expect(orderIds()).toEqual([]);
  });
});

describe("a transaction", () => {
  it("that fails changes nothing and says why", async () => {
    const failing = [insertOrder("1", "shipped"), insertOrder("2", "lost")];
    await expect(orderDatabase.transaction(failing)).rejects.toThrow(
      /staging orders database: .*status_is_known/,
    );
    expect(orderIds()).toEqual([]);
  });

  it("of more than 9 statements is imported as one file, completely or not at all", async () => {
    const many = (count: number, from = 0) =>
      Array.from({ length: count }, (_, index) => insertOrder(String(from + index)));
    const failing = orderDatabase.transaction([...many(10), insertOrder("x", "lost")]);
    await expect(failing).rejects.toThrow("status_is_known");
    expect(orderIds()).toEqual([]);
    await orderDatabase.transaction(many(20));
    await orderDatabase.transaction([sql`DELETE FROM orders WHERE id >= ${3}`]);
    expect(orderIds()).toEqual(["0", "1", "2"]);
    await orderDatabase.transaction(many(9, 3));
    await orderDatabase.transaction(many(10, 12));
    expect(cloudflare.changes.map((change) => change.split(" ")[0])).toEqual([
      "import",
      "import",
      "write",
      "write",
      "import",
    ]);
    await orderDatabase.transaction([sql`DELETE FROM orders WHERE id >= ${0}`]);
  });

  it("is imported as a new file each time, because D1 skips a file that it has imported", async () => {
    const files = new Set<string>();
    vi.mocked(wrangler.runWrangler).mockImplementation(async (args) => {
      files.add(readFileSync(args.at(-1)!.replace("--file=", ""), "utf8"));
      return { stdout: "", stderr: "" };
    });
    const many = Array.from({ length: 10 }, () => insertOrder("1"));
    for (let times = 0; times < 2; times += 1) await orderDatabase.transaction(many);
    vi.mocked(wrangler.runWrangler).mockImplementation(runFakeWrangler);
    expect(files.size).toBe(2);
  });

  it("above 64 KiB is imported as a file, and a statement above D1's limit is refused", async () => {
    const statement = (bytes: number) => sql`
      REPLACE INTO order_import_parts (import_id, part, created_at, lines)
      VALUES (${"a"}, ${0}, ${0}, ${"'".repeat(bytes / 2)})`;
    await orderDatabase.transaction([statement(65_300)]);
    await orderDatabase.transaction([statement(99_800)]);
    expect(cloudflare.changes.map((change) => change.split(" ")[0])).toEqual(["write", "import"]);
    await expect(orderDatabase.transaction([statement(100_000)])).rejects.toThrow(
      "D1 takes at most 100000",
    );
    expect(stored("SELECT length(lines) FROM order_import_parts")).toEqual(["49900"]);
  });
});

describe("a transient failure", () => {
  const lost = new ApiError(500, 7500, "Network connection lost.");
  const overloaded = new ApiError(503, 7500, "D1 DB is overloaded. Requests queued for too long.");
  const starting = new ApiError(500, 7500, "Failed while starting up D1 DB storage.");
  const limited = new ApiError(429, 10_000, "Too many requests");
  const read = () => orderDatabase.all(sql`SELECT version FROM order_list`);
  const write = () => orderDatabase.transaction([insertOrder("7")]);
  const updateKeys = () => keyDatabase.all(sql`UPDATE api_keys SET last_four = 'abcd'`);
  const storeOnce = () => orderDatabase.runIdempotent(sql`SELECT 1`);

  it.each([
    ["a read", 4, lost, read],
    ["a read", 4, limited, read],
    ["a write that never began", 4, overloaded, write],
    ["a write that never began", 4, starting, write],
    ["a write that never began", 4, limited, write],
    ["an idempotent write", 8, lost, storeOnce],
  ])("of %s is followed by up to %i retries: %s", async (_, retries, error, work) => {
    const asked = failWith(...Array<ApiError>(retries).fill(error));
    await work();
    expect(asked()).toBe(retries + 1);
  });

  it("of a read does not suggest that a change was made", async () => {
    failWith(...Array<ApiError>(5).fill(lost));
    const message = expect.stringMatching(/connection lost(?![^]*not known)/);
    await expect(read()).rejects.toMatchObject({ message });
  });

  it.each([
    ["the connection is lost", lost, write],
    ["the connection is lost", lost, updateKeys],
    ["Cloudflare is unavailable", new ApiError(503, 10_000, "Service unavailable"), write],
  ])("of a write that may have happened is not followed by a retry: %s", async (_, error, work) => {
    const asked = failWith(error);
    await expect(work()).rejects.toThrow("check before you repeat it");
    expect(asked()).toBe(1);
    expect(orderIds()).toEqual(["7"]);
  });
});

describe("an error says what to do", () => {
  const reason = async (env: RemoteEnvironment) => {
    const database = await openRemoteDatabase({ env, name: "keys" });
    const [read] = await Promise.allSettled([database.all(sql`SELECT id FROM api_keys`)]);
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
