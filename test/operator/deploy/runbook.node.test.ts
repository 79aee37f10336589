import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { hashSecret, SECRET_PREFIX } from "../../../src/worker/api-keys/secret.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import type { RequestRecord } from "../../../src/worker/telemetry/request-record.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import type { FakeD1 } from "./fake-d1.ts";
import { FakeVersions } from "./fake-versions.ts";
import { HEALTHY, UNAUTHORIZED } from "./fake-workers-api.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { NpmInProcess } from "./npm-in-process.ts";
import { runCommand } from "./run-command.ts";
import { readCases, toScript } from "./runbook.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const NAME = "store-orders-production";
const PETS = "key_petspetspetspets";
const ZOO = "key_zoozoozoozoozooz";
const NEW = "key_newnewnewnewnewn";
const VARIABLES = [
  "URL",
  "BACKUPS",
  "ID",
  "KEY",
  "TIME",
  "BOOKMARK",
  "BEFORE",
  "INTRUDER",
  "VERSION",
];
/** The log fields of a request with a banned key. */
const BANNED: RequestRecord = {
  event: "request",
  requestId: "1",
  keyId: PETS,
  method: "GET",
  route: "/v1/store/orders",
  status: 429,
  code: "api_key_banned",
  plan: "pro",
  window: "minute",
  limit: 300,
  remaining: 0,
  durationMs: 3,
  represents: 1,
  region: "FRA",
  country: "DE",
  degraded: null,
  servedBy: null,
};

/** A long timeout, because a case runs up to four commands that start the real wrangler. */
const TIMEOUT_MS = 180_000;

const cases = new Map(readCases("docs/runbook.md").map((found) => [found.title, found]));

let cloudflare: FakeCloudflare;
let npm: NpmInProcess;
let backups: string;
const key = generateSecret();

beforeEach(async () => {
  cloudflare = new FakeCloudflare();
  const nowSeconds = Math.floor(Date.now() / 1_000);
  cloudflare.analytics.write("store_orders_production", nowSeconds - 60, BANNED);
  npm = new NpmInProcess();
  await Promise.all([cloudflare.start(), npm.start()]);
  for (const [name, value] of Object.entries(cloudflare.environment)) vi.stubEnv(name, value);
  vi.stubEnv("STORE_ORDERS_ACTOR", "ada");
  backups = mkdtempSync(join(tmpdir(), "store-orders-backups-"));
  cloudflare.d1.createStore("production");
  const versions = new FakeVersions();
  versions.deploy(versions.upload("v1.2.0"));
  const bindings = [
    { name: "ORDERS", type: "d1", id: orders().uuid },
    { name: "KEYS", type: "d1", id: keys().uuid },
  ];
  cloudflare.workers.scripts.set(NAME, { bindings, migrationTag: "v1", versions });
  orders().sqlite.exec(
    "INSERT INTO orders (id, status) VALUES (1001, 'pending'), (1003, 'shipped')",
  );
  keys().sqlite.exec(`
    INSERT INTO api_keys (id, hash, name, plan, created_at) VALUES
      ('${PETS}', '${hashSecret(key)}', 'Pet shop', 'pro', 0), ('${ZOO}', 'b', 'Zoo', 'free', 0);`);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all([cloudflare.stop(), npm.stop()]);
  rmSync(backups, { recursive: true });
});

const orders = () => cloudflare.d1.find(`${NAME}-orders`);
const keys = () => cloudflare.d1.find(`${NAME}-keys`);
const values = ({ sqlite }: FakeD1, query: string) =>
  sqlite
    .prepare(query)
    .all()
    .map((row) => Object.values(row)[0]);

/** Returns a deployed Worker for the fake account, with its databases as bindings. */
function deployedScript(versions: FakeVersions) {
  const bindings = [
    { name: "ORDERS", type: "d1", id: orders().uuid },
    { name: "KEYS", type: "d1", id: keys().uuid },
  ];
  return { bindings, migrationTag: "v1", versions };
}

/** Runs all commands of a runbook case, expects each to succeed, and returns their output. */
async function follow(title: string, variables: Record<string, string> = {}): Promise<string> {
  const { commands, promises } = cases.get(title) ?? { commands: [], promises: [] };
  expect(commands.length).toBeGreaterThan(0);
  const script = toScript(commands, VARIABLES);
  const { status, stdout, stderr } = await runCommand("bash", ["-eu", "-c", script], {
    env: {
      ...cloudflare.environment,
      ...npm.environment,
      URL: cloudflare.addressOf(`${NAME}.example.workers.dev`),
      BACKUPS: backups,
      ID: PETS,
      KEY: key,
      ...variables,
    },
  });
  expect(status, `${stdout}\n${stderr}\n${npm.stderr}`).toBe(0);
  for (const promise of promises) expect(`${stdout}\n${npm.stderr}`).toContain(promise);
  return stdout;
}

it("every case of the runbook has a test", () => {
  expect([...cases.keys()]).toEqual([
    "A key has leaked",
    "A customer was banned by mistake",
    "A flood without keys",
    "A runaway bill",
    "A Cloudflare token has leaked",
    "Durable Objects are unreachable",
    "A database is slow",
    "A deployment has gone wrong",
    "Restoring orders",
    "Restoring keys",
    "Somebody restored without npm run time-travel",
    "Backups of your own",
  ]);
});

it(
  "a leaked key: finds its record, ends it and shows who did",
  async () => {
    orders().sqlite.exec("INSERT INTO cancelled_orders (cancelled_at, id) VALUES (5000, 9)");
    cloudflare.workers.answer = (authorization) => {
      const hash = hashSecret(authorization.replace("Bearer ", ""));
      const isKnown = values(keys(), "SELECT hash FROM api_keys").includes(hash);
      return isKnown ? { status: 200, body: "[]" } : UNAUTHORIZED;
    };
    const said = await follow("A key has leaked");
    expect(said).toMatch(/id +key_pets\w+\nname +Pet shop/);
    expect(said).toContain('"cancelled": "1970-01-01 00:00:05"');
    expect(said).toMatch(/ ada +rotate +key_pets/);
    expect(said).toMatch(/^401$/m);
    expect(values(keys(), `SELECT hash FROM api_keys WHERE id = '${PETS}'`)).not.toEqual([
      hashSecret(key),
    ]);
  },
  TIMEOUT_MS,
);

it(
  "a mistaken ban: lifts it and gives the plan",
  async () => {
    keys().sqlite.exec(`
      INSERT INTO key_bans (key_id, began_at, ends_at, number) VALUES ('${PETS}', 1, 9999999999999, 1)`);
    const said = await follow("A customer was banned by mistake");
    expect(said).toMatch(/key_pets.* in force/);
    expect(said).toMatch(/key_pets.* lifted /);
    const pets = keys().sqlite.prepare("SELECT plan, resets FROM api_keys WHERE id = ?").get(PETS);
    expect(pets).toEqual({ plan: "business", resets: 1 });
  },
  TIMEOUT_MS,
);

it("a flood: shows requests without a key, and a rule that does not block keys", async () => {
  const anonymous = {
    ...BANNED,
    keyId: null,
    plan: null,
    code: "unauthorized",
    represents: 700,
  } as const;
  cloudflare.analytics.write(
    "store_orders_production",
    Math.floor(Date.now() / 1_000) - 60,
    anonymous,
  );
  expect(await follow("A flood without keys")).toMatch(/anonymous +700 /);
  const page = readFileSync("docs/runbook.md", "utf8");
  expect(page).toContain(`contains "bearer ${SECRET_PREFIX}")`);
});

it(
  "a runaway bill: finds the busiest key, gives it a smaller plan, and puts the service back",
  async () => {
    keys().sqlite.exec(`
      INSERT INTO key_usage VALUES ('${PETS}', date('now'), 9000, 0, 0, 0, 300, 9000, 300, 10000, 1)`);
    cloudflare.workers.offWorkersDev.add(NAME);
    expect(await follow("A runaway bill")).toMatch(/Pet shop[^]* 9,000 /);
    expect(values(keys(), `SELECT plan FROM api_keys WHERE id = '${PETS}'`)).toEqual(["free"]);
    expect(cloudflare.workers.offWorkersDev).toEqual(new Set());
  },
  TIMEOUT_MS,
);

it(
  "a leaked token: finds the key that no command made, and ends it",
  async () => {
    cloudflare.workers.scripts.set(NAME, deployedScript(new FakeVersions()));
    keys().sqlite.exec(
      `INSERT INTO key_changes (at, actor, action, key_id, details) VALUES (1, 'ada', 'create', '${PETS}', '{}')`,
    );
    const said = await follow("A Cloudflare token has leaked", { INTRUDER: ZOO });
    expect(said).toMatch(/"id": "key_zoo/);
    expect(said).not.toMatch(/"id": "key_pets/);
    expect(values(keys(), "SELECT id FROM api_keys WHERE revoked_at > 0")).toEqual([ZOO]);
  },
  TIMEOUT_MS,
);

it("unreachable objects: shows the minutes in which the fallback limiter decided", async () => {
  const nowSeconds = Math.floor(Date.now() / 1_000);
  cloudflare.analytics.write("store_orders_production", nowSeconds - 60, {
    ...BANNED,
    degraded: "limiter",
  });
  expect(await follow("Durable Objects are unreachable")).toMatch(/ limiter +FRA/);
});

it(
  "a slow database: counts orders and keys and shows the import that is under way",
  async () => {
    orders().sqlite.exec(
      "INSERT INTO order_import_parts (import_id, part, created_at, lines) VALUES ('import-1', 0, 1795000000123, '[]')",
    );
    const said = await follow("A database is slow");
    expect(said).toContain('"orders": 2');
    expect(said).toContain('"keys": 2');
    expect(said).toContain('"import-1"');
  },
  TIMEOUT_MS,
);

it(
  "a bad deployment: goes back to the version of that name",
  async () => {
    const { versions } = cloudflare.workers.find(NAME);
    const before = versions.upload("v1.3.0");
    versions.deploy(before);
    versions.deploy(versions.upload("v1.3.1"));
    versions.deploy(versions.upload("v1.4.0"));
    cloudflare.workers.answer = (_, { version }) =>
      version === before ? HEALTHY : { status: 500, body: "" };
    const said = await follow("A deployment has gone wrong", { VERSION: before });
    expect(versions.current).toBe(before);
    expect(said).toContain("v1.4.0");
    expect(said).toContain("errors since v1.4.0");
    expect(said).toContain(HEALTHY.body);
  },
  TIMEOUT_MS,
);

const read = (name: string) => readFileSync(join(backups, name), "utf8");

it(
  "lost orders: keeps what is there, restores, and undoes it again, without touching a key",
  async () => {
    const TIME = orders().timeOf(orders().bookmark());
    orders().sqlite.exec("DELETE FROM orders WHERE id = 1001");
    const BOOKMARK = orders().bookmark();
    writeFileSync(join(backups, "backup.ndjson"), '{"id":1001,"status":"pending"}\n{"id":9}\n');
    const before = keys().sqlite.serialize();

    await follow("Restoring orders", { TIME, BOOKMARK });
    expect(read("before.ndjson")).toBe('{"id":1003,"status":"shipped"}\n');
    expect(read("some.ndjson")).toBe('{"id":1001,"status":"pending"}\n');
    expect(read("after.ndjson")).toBe(
      '{"id":1001,"status":"pending"}\n{"id":1003,"status":"shipped"}\n',
    );
    expect(values(orders(), "SELECT id FROM orders")).toEqual([1003]);
    expect(Buffer.from(keys().sqlite.serialize()).equals(before)).toBe(true);
  },
  TIMEOUT_MS,
);

it(
  "lost keys: keeps what is there, restores, and undoes it again",
  async () => {
    const TIME = keys().timeOf(keys().bookmark());
    keys().sqlite.exec(`
      INSERT INTO api_keys (id, hash, name, plan, created_at) VALUES ('${NEW}', 'n', 'New', 'free', 1);
      UPDATE api_keys SET revoked_at = 1 WHERE id = '${ZOO}'`);
    const BOOKMARK = keys().bookmark();

    const said = await follow("Restoring keys", { TIME, BOOKMARK });
    expect(said).toContain(`Keys made since, which are gone: ${NEW}.`);
    expect(said).toContain(`npm run keys -- revoke ${ZOO} --env production`);
    expect(said).toMatch(/ ada +restore +key_zoo/);
    expect(JSON.parse(read("keys.json"))).toHaveLength(3);
    expect(JSON.parse(read("audit.json"))).toEqual([]);
    expect(JSON.parse(read("bans.json"))).toEqual([]);
    expect(JSON.parse(read("usage.json"))).toHaveLength(3);
    expect(values(keys(), "SELECT id FROM api_keys ORDER BY id")).toEqual([NEW, PETS, ZOO]);
  },
  TIMEOUT_MS,
);

it("a restoration without the command: undoes it, restores with the command, reports", async () => {
  const TIME = keys().timeOf(keys().bookmark());
  keys().sqlite.exec(`UPDATE api_keys SET revoked_at = 1 WHERE id = '${ZOO}'`);
  const BEFORE = keys().bookmark();
  keys().restore(keys().bookmarkAt(new Date(TIME)));
  expect(values(keys(), "SELECT id FROM api_keys WHERE revoked_at = 1")).toEqual([]);

  const said = await follow("Somebody restored without npm run time-travel", { TIME, BEFORE });
  expect(said).toContain(`npm run keys -- revoke ${ZOO} --env production`);
  expect(said).toMatch(/ ada +restore +key_zoo/);
  const [revision] = values(keys(), `SELECT revision FROM api_keys WHERE id = '${ZOO}'`);
  expect(Number(revision)).toBeGreaterThan(Date.parse(TIME));
});

it(
  "backups: writes the orders, and all of each database",
  async () => {
    await follow("Backups of your own");
    const written = readdirSync(backups).map((name) => name.replace(/-\d{4}-\d\d-\d\d/, ""));
    expect(written.toSorted()).toEqual(["keys.sql", "orders.ndjson", "orders.sql"]);
  },
  TIMEOUT_MS,
);
