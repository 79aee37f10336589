import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { runWrangler } from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { ApiError } from "./route.ts";

// Other tests of remote commands use only the fake wrangler. These tests compare it with the real
// wrangler.

const cloudflare = useFakeCloudflare("staging");
const folder = mkdtempSync(join(tmpdir(), "store-orders-wrangler-"));
const file = (name: string, sql: string) => {
  writeFileSync(join(folder, name), sql);
  return `--file=${join(folder, name)}`;
};

afterAll(() => rmSync(folder, { recursive: true }));

const EXECUTE = ["d1", "execute", "ORDERS", "--remote", "--json", "--yes"];
const STAGING = ["--env", "staging"];

interface Outcome {
  readonly said: unknown;
  readonly changes: readonly string[];
}

async function outcomeOf(run: typeof runWrangler, args: readonly string[]): Promise<Outcome> {
  cloudflare.changes.length = 0;
  const said = await run(args).then(({ stdout }) => relevantPart(JSON.parse(stdout)), messageOf);
  return { said, changes: [...cloudflare.changes] };
}

/**
 * Returns the part of wrangler's output that the commands use. Replaces a bookmark by whether it
 * exists, because each bookmark is different.
 */
function relevantPart(answer: Readonly<Record<string, unknown>>): unknown {
  const { uuid, type, token, accounts, bookmark, 0: first } = answer;
  return { uuid, type, token, accounts, hasBookmark: bookmark !== undefined, first };
}

/** Returns the part of an error message that the commands or their tests use. */
function messageOf({ message }: Error): string {
  return message.split("\n")[0]?.replace(/^(Couldn't find a D1 DB).*/, "$1") ?? "";
}

it.each([
  ["the login", ["auth", "token", "--json"]],
  ["no database", [...EXECUTE, "--command=SELECT 1", "--env", "production"]],
])("wrangler and the fake wrangler do the same for %s", async (_, args) => {
  expect(await outcomeOf(runFakeWrangler, args)).toEqual(await outcomeOf(runWrangler, args));
});

it.each([[["--json"]], [[]]])(
  "wrangler and the fake wrangler print the same rows of a query with the options %j",
  async (options) => {
    const query = ["--command", "SELECT 1 AS one, 'two' AS other"];
    const args = ["d1", "execute", "ORDERS", "--remote", ...STAGING, ...options, ...query];
    const rowsOf = async (run: typeof runWrangler) => {
      const { stdout } = await run(args);
      return stdout.slice(stdout.search(/^\[/m));
    };
    expect(await rowsOf(runFakeWrangler)).toBe(await rowsOf(runWrangler));
  },
);

it("wrangler and the fake wrangler import a file completely or not at all", async () => {
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

it.each([
  ["a wrong token", new ApiError(401, 10000, "Authentication error")],
  ["a lost connection", new ApiError(500, 7500, "Network connection lost.")],
])("wrangler and the fake wrangler report %s alike, and do not retry", async (_, error) => {
  const args = [...EXECUTE, ...STAGING, "--command=SELECT 1"];
  const outcomes = [];
  for (const run of [runFakeWrangler, runWrangler]) {
    let asked = 0;
    cloudflare.interfere = ({ path }) => {
      if (!path.startsWith("/d1/database")) return;
      asked += 1;
      throw error;
    };
    outcomes.push({ ...(await outcomeOf(run, args)), asked });
  }
  cloudflare.interfere = () => {};
  expect(outcomes[0]).toMatchObject({ asked: 1, said: expect.stringContaining(error.message) });
  expect(outcomes[1]).toEqual(outcomes[0]);
});
