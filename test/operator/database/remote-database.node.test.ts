import { readdirSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { type SQL, sql } from "drizzle-orm";
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { API_PATIENCE } from "../../../src/operator/cloudflare-api.ts";
import { openRemoteDatabase } from "../../../src/operator/database/remote.ts";
import { apiKeys } from "../../../src/schema/keys.ts";
import { orders } from "../../../src/schema/orders.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import * as retrying from "../../../src/operator/retry.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { testFolder } from "../../support/test-folder.ts";
import { failure, runCommand, runInProcess } from "../commands.ts";
import { listen, runRealWrangler, useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { ApiError } from "../deploy/route.ts";

const cloudflare = useFakeCloudflare("staging");
const temporary = testFolder();
const database = openRemoteDatabase({ env: "staging", name: "orders" });
const { orm } = database;

beforeAll(() => {
  vi.stubEnv("TMPDIR", temporary);
  // Cloudflare's search also finds longer names. Here, its first result is a wrong database.
  cloudflare.d1.create("old-store-orders-staging-orders");
  cloudflare.d1.databases.reverse();
});
beforeEach(() => {
  cloudflare.interfere = () => {};
  cloudflare.logIn();
});

const insertOrder = (id: number, status = "pending"): SQL =>
  sql.raw(`REPLACE INTO orders (id, status) VALUES (${id}, '${status}')`);

it("sends texts and numbers unchanged", async () => {
  const text = 'O\'Brien; DROP TABLE api_keys; -- "?" `x` [y]\r\n/* ☕ */';
  const values = sql`SELECT ${text}, 1 -${-1}, ${null}, ${"7"}`;
  expect(await orm.all(values)).toEqual([[text, 2, null, "7"]]);
});

it.each([false, true])("changes all or nothing in a transaction (long: %s)", async (isLong) => {
  const failing = database.transaction([insertOrder(1), insertOrder(2, "lost")], { isLong });
  await expect(failing).rejects.toThrow(/status_is_known/);
  const ids = () => orm.all(sql`SELECT id FROM orders`);
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
  expect(readdirSync(temporary)).toEqual([]);
});

const works: readonly (readonly [isRepeatable: boolean, work: () => Promise<unknown>])[] = [
  [true, () => orm.select({ status: orders.status }).from(orders).then()],
  [true, () => orm.insert(orders).values({ id: 7n }).onConflictDoNothing().then()],
  [false, () => orm.update(orders).set({ quantity: 1n }).then()],
  [false, () => database.transaction([insertOrder(7)])],
];

/** Fails the first queries. Returns how many there were, and what the work said at its end. */
async function failFirst(failures: number, error: Error, work: () => Promise<unknown>) {
  let queries = 0;
  cloudflare.interfere = ({ path }) => {
    if (path.endsWith("/raw") && ++queries <= failures) throw error;
  };
  const said = await work().then(() => "", String);
  return [queries, said.replace(/^Error: staging orders database: .*?(?=\. It is|$)/, "failed")];
}

const UNKNOWN = "failed. It is not known whether the change was made";
it.each<[kind: string, text: string, status?: number, code?: number]>([
  ["not begun", "Too many requests", 429, 10_000],
  ["not begun", "A limit", 400, 971],
  ["not begun", "D1 DB is overloaded. Requests queued for too long."],
  ["not begun", "Error while starting up D1 DB storage caused object to be reset."],
  ["lost", "Network connection lost."],
  ["lost", "D1 DB storage operation exceeded timeout which caused object to be reset."],
  ["lost", "D1 DB reset because its code was updated."],
  ["lost", "Service unavailable", 503, 10_000],
  ["refused", "UNIQUE constraint failed: orders.id: SQLITE_CONSTRAINT"],
])("an error is retried if safe (%s: %s)", async (kind, text, status = 400, code = 7500) => {
  const error = new ApiError(status, code, text);
  for (const [isRepeatable, work] of works) {
    const isRepeated = kind === "not begun" || (kind === "lost" && isRepeatable);
    const failed = kind === "lost" && !isRepeated ? UNKNOWN : "failed";
    const expected = isRepeated ? [7, ""] : [1, failed];
    expect(await failFirst(isRepeated ? 6 : 1, error, work)).toEqual(expected);
    if (isRepeated) expect(await failFirst(7, error, work)).toEqual([7, "failed"]);
  }
  const pauses = { retries: 6, minTimeout: 500, maxTimeout: 8_000, randomize: true };
  expect(vi.mocked(retrying.retry).mock.lastCall?.[1]).toMatchObject(pauses);
});

it("says why a long transaction failed in the real wrangler", async () => {
  vi.mocked(wrangler.runWrangler).mockImplementationOnce(runRealWrangler);
  cloudflare.interfere = ({ path }) => {
    if (path.endsWith("/import")) throw new ApiError(400, 7500, "status_is_known");
  };
  const failing = database.transaction([insertOrder(1)], { isLong: true });
  await expect(failing).rejects.toThrow(/status_is_known \[code: 7500\]$/);
});

it("says what to do if a database or a migration is missing, or a token is wrong", async () => {
  const reason = (env: "staging" | "production") => {
    const keys = openRemoteDatabase({ env, name: "keys" });
    return keys.orm.select().from(apiKeys).then(String, String);
  };
  expect(await reason("production")).toBe(
    "Error: production keys database: there is none yet in the account Pets (0123456789abcdef0123456789abcdef): choose another account (account_id in wrangler.toml, CLOUDFLARE_ACCOUNT_ID), or run `npm run deploy -- --env production` first",
  );
  const { sqlite } = cloudflare.d1.create("store-orders-production-keys");
  const missing = /missing .*run `npm run deploy -- --env production`/;
  for (const made of ["", "CREATE TABLE api_keys (id)"]) {
    sqlite.exec(made);
    expect(await reason("production")).toMatch(missing);
  }
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "wrong");
  expect(await reason("staging")).toMatch(/Authentication error .*`npx wrangler login`/);
});

it.each(["", '{"result":'])(
  "a query whose answer ends after %j is reported after ten seconds, and given up after two minutes",
  async (beginning) => {
    const real = { ...API_PATIENCE };
    expect(real).toEqual({ noticeMs: 10_000, timeoutMs: 120_000 });
    onTestFinished(() => void Object.assign(API_PATIENCE, real));
    const result = [{ name: "store-orders-staging-keys", uuid: "ID" }];
    const server = createServer(({ method }, response) => {
      // Only a query hangs, and only a query is impatient.
      if (method === "GET") response.end(JSON.stringify({ result }));
      else if (beginning !== "") response.write(beginning);
      Object.assign(API_PATIENCE, method === "GET" ? { noticeMs: 1, timeoutMs: 50 } : real);
    });
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", await listen(server));
    const keys = openRemoteDatabase({ env: "staging", name: "keys" });
    const hung = "staging keys database: nothing came in two minutes";
    const change = keys.transaction([sql`DELETE FROM api_keys`]);
    await expect(change).rejects.toThrow(`${hung}. It is not known whether`);
    Object.assign(API_PATIENCE, real);
    // It is not repeated.
    const outcome = await runInProcess(keysProgram(), ["list", "--env", "staging"]);
    expect(outcome).toEqual(failure(`error: ${hung}\n`));
    const notices = /^Cloudflare has not answered POST .*\/raw for ten seconds\. .*\nerror: .*\n$/;
    expect(outcome.stderr).toMatch(notices);
  },
);

describe("a proxy of the environment", () => {
  /** The addresses that the proxy was asked for. It tunnels to this machine, and nowhere else. */
  const asked = new Set<string | undefined>();
  let proxy: string;
  beforeEach(async () => {
    asked.clear();
    const server = createServer();
    server.on("connect", ({ url }, socket) => {
      asked.add(url);
      const { hostname, port } = new URL(`http://${url}`);
      if (hostname !== "0.0.0.0") return socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      return socket.pipe(connect(Number(port), "127.0.0.1")).pipe(socket);
    });
    proxy = await listen(server);
  });
  const run = (line: string, env: NodeJS.ProcessEnv) =>
    runCommand(process.execPath, ["src/operator/main.js", ...line.split(" ")], env);

  it.each([
    ["is used for an address that NO_PROXY does not list", "a.example", true],
    ["is not used for an address that NO_PROXY lists", "a.example,0.0.0.0", false],
  ])("%s", async (_, noProxy, isUsed) => {
    // An address of this machine that no proxy skips by itself.
    const base = cloudflare.origin.replace("127.0.0.1", "0.0.0.0");
    const env = { CLOUDFLARE_API_BASE_URL: base, HTTP_PROXY: proxy, NO_PROXY: noProxy };
    const listed = await run("keys list --plan pro --env staging --json", env);
    expect(listed).toMatchObject({ stdout: "[]\n" });
    expect([...asked]).toEqual(isUsed ? [new URL(base).host] : []);
    if (isUsed) return;
    // Without wrangler, which has a proxy of its own.
    const { stderr } = await run(`verify --url ${base}`, env);
    expect(stderr).toContain("the answer is 401");
  });

  it("tunnels to Cloudflare's own address, and its refusal ends the command", async () => {
    const login = { CLOUDFLARE_API_BASE_URL: undefined, CLOUDFLARE_ACCOUNT_ID: "" };
    const outcome = await run("verify --env staging", { ...login, HTTPS_PROXY: proxy });
    expect(outcome).toEqual(failure("error: Cloudflare, GET /accounts: no answer: "));
    expect([...asked]).toEqual(["api.cloudflare.com:443"]);
  });
});
