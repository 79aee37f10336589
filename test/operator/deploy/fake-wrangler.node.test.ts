import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { runWrangler } from "../../../src/operator/wrangler.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { ApiError } from "./route.ts";

// The other tests of remote commands use the stand-in. Here wrangler itself makes each of its calls.

const cloudflare = new FakeCloudflare();
const folder = mkdtempSync(join(tmpdir(), "store-orders-wrangler-"));
const file = (name: string, sql: string) => {
  writeFileSync(join(folder, name), sql);
  return `--file=${join(folder, name)}`;
};

beforeAll(async () => {
  await cloudflare.start();
  for (const [name, value] of Object.entries(cloudflare.environment)) vi.stubEnv(name, value);
  cloudflare.d1.createStore("staging");
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await cloudflare.stop();
  rmSync(folder, { recursive: true });
});

const EXECUTE = ["d1", "execute", "ORDERS", "--remote", "--json", "--yes"];
const HOSTILE = `SELECT 'O''Brien; -- "?" \`x\` [y]\r\n/* ☕ */' AS name, 9007199254740993 AS big`;
const STAGING = ["--env", "staging"];

interface Outcome {
  readonly said: unknown;
  readonly changes: readonly string[];
}

async function outcomeOf(run: typeof runWrangler, args: readonly string[]): Promise<Outcome> {
  cloudflare.changes.length = 0;
  const said = await run(args).then(({ stdout }) => relevant(JSON.parse(stdout)), messageOf);
  return { said, changes: [...cloudflare.changes] };
}

/** The part of an answer that the commands use. */
function relevant(answer: { results?: unknown }[] | { bookmark: string }): unknown {
  return Array.isArray(answer) ? answer.map(({ results }) => results) : Object.keys(answer);
}

/** The part of a message that the commands or their tests look at. */
function messageOf({ message }: Error): string {
  return message.split("\n")[0]?.replace(/^(Couldn't find a D1 DB).*/, "$1") ?? "";
}

it.each([
  ["a query", [...EXECUTE, ...STAGING, `--command=${HOSTILE}`]],
  ["a query that fails", [...EXECUTE, ...STAGING, "--command=SELECT * FROM none"]],
  ["the bookmark of now", ["d1", "time-travel", "info", "ORDERS", ...STAGING, "--json"]],
  [
    "a restoration to no bookmark",
    ["d1", "time-travel", "restore", "ORDERS", ...STAGING, "--json", "--bookmark=x"],
  ],
  ["no database", [...EXECUTE, "--env", "production", "--command=SELECT 1"]],
])("wrangler and its stand-in do the same for %s", async (_, args) => {
  expect(await outcomeOf(runFakeWrangler, args)).toEqual(await outcomeOf(runWrangler, args));
});

it("wrangler and its stand-in import a file as a whole", async () => {
  const sql = "INSERT INTO orders (id) VALUES (1); INSERT INTO orders (id) VALUES (2);";
  const broken = file("broken.sql", `${sql} INSERT INTO none VALUES (1);`);
  const whole = file("whole.sql", sql);
  const { sqlite } = cloudflare.d1.find("store-orders-staging-orders");
  for (const run of [runFakeWrangler, runWrangler]) {
    const failed = await outcomeOf(run, [...EXECUTE, ...STAGING, broken]);
    expect(failed.said).toContain("no such table: none");
    expect(sqlite.prepare("SELECT id FROM orders").all()).toEqual([]);
    cloudflare.changes.length = 0;
    await run([...EXECUTE, ...STAGING, whole]);
    expect(cloudflare.changes).toEqual(["import into store-orders-staging-orders"]);
    expect(sqlite.prepare("SELECT id FROM orders").all()).toEqual([{ id: 1 }, { id: 2 }]);
    sqlite.exec("DELETE FROM orders");
  }
});

it("wrangler and its stand-in restore a state by its bookmark", async () => {
  for (const run of [runFakeWrangler, runWrangler]) {
    const bookmark = cloudflare.d1.find("store-orders-staging-orders").bookmark();
    const args = ["d1", "time-travel", "restore", "ORDERS", ...STAGING, "--json"];
    const { stdout } = await run([...args, `--bookmark=${bookmark}`]);
    expect(JSON.parse(stdout)).toMatchObject({ bookmark, previous_bookmark: expect.any(String) });
  }
});

it.each([
  ["a wrong token", new ApiError(401, 10000, "Authentication error")],
  ["a lost connection", new ApiError(500, 7500, "Network connection lost.")],
])("wrangler and its stand-in report %s alike, and neither asks again", async (_, error) => {
  const args = [...EXECUTE, ...STAGING, "--command=SELECT 1"];
  const outcomes = [];
  for (const run of [runFakeWrangler, runWrangler]) {
    let asked = 0;
    cloudflare.interfere = ({ path }) => {
      if (!path.endsWith("/query")) return;
      asked += 1;
      throw error;
    };
    outcomes.push({ ...(await outcomeOf(run, args)), asked });
  }
  cloudflare.interfere = () => {};
  expect(outcomes[0]).toMatchObject({ asked: 1, said: expect.stringContaining(error.message) });
  expect(outcomes[1]).toEqual(outcomes[0]);
});
