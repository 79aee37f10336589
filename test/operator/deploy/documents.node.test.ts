import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Command } from "commander";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { metricsProgram } from "../../../src/operator/metrics/program.ts";
import { parseOrder } from "../../../src/operator/orders/parse-order.ts";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { SortedOrders } from "../../../src/operator/orders/sorted-orders.ts";
import { importIdOf } from "../../../src/operator/orders/staging.ts";
import { timeTravelProgram } from "../../../src/operator/time-travel/program.ts";
import { verifyProgram } from "../../../src/operator/verify/program.ts";
import { SYSTEM_CLOCK } from "../../../src/operator/verify/service-promise.ts";
import * as storeVerifying from "../../../src/operator/verify/verify-store.ts";
import * as verifying from "../../../src/operator/verify/verify.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { hashSecret, SECRET_PREFIX } from "../../../src/worker/api-keys/secret.ts";
import { runInProcess } from "../in-process.ts";
import { StoreFolder } from "../store-folder.ts";
import { parseLine, readCases } from "./documents.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { REQUEST } from "./fake-analytics.ts";
import type { FakeD1 } from "./fake-d1.ts";
import { HEALTHY, UNAUTHORIZED } from "./fake-workers.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { runCommand } from "./run-command.ts";

const runRealWrangler = wrangler.runWrangler;
const PROGRAMS: Readonly<Record<string, () => Command>> = {
  keys: keysProgram,
  metrics: metricsProgram,
  orders: ordersProgram,
  "time-travel": timeTravelProgram,
  verify: () => verifyProgram({ clock: SYSTEM_CLOCK, send: async () => new Response() }),
};
const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync("package.json", "utf8"),
);
/** The commands of wrangler that run the real one, which takes seconds. */
const REAL = /^(?:rollback|versions list|d1 export)/;

const NAME = "store-orders-production";
const PETS = "key_petspetspetspets";
const ZOO = "key_zoozoozoozoozooz";
const NEW = "key_newnewnewnewnewn";
const ORDER = '{"id":1001,"status":"pending"}';
const BANNED = { ...REQUEST, keyId: PETS, status: 429, code: "api_key_banned" } as const;
const KEPT: verifying.Verification = { isKept: true, promises: [] };
/** A long timeout, because some cases start the real wrangler. */
const TIMEOUT_MS = 180_000;

const cases = new Map(readCases("docs/runbook.md").map((found) => [found.title, found]));

let cloudflare: FakeCloudflare;
let folder: string;
const key = generateSecret();

beforeEach(async () => {
  vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
  // Mocked, because the tests of `verify` run it on the real service.
  vi.spyOn(verifying, "verify").mockResolvedValue(KEPT);
  vi.spyOn(storeVerifying, "verifyStore").mockResolvedValue(KEPT);
  cloudflare = new FakeCloudflare();
  await cloudflare.start();
  vi.stubEnv("STORE_ORDERS_ACTOR", "ada");
  folder = mkdtempSync(join(tmpdir(), "store-orders-documents-"));
  cloudflare.deployService("production");
  logRequest(BANNED);
  orders().sqlite.exec(
    "INSERT INTO orders (id, status) VALUES (1001, 'pending'), (1003, 'shipped')",
  );
  keys().sqlite.exec(`
    INSERT INTO api_keys (id, hash, last_four, name, plan, created_at) VALUES
      ('${PETS}', '${hashSecret(key)}', 'wxyz', 'Pet shop', 'pro', 0),
      ('${ZOO}', 'b', 'abcd', 'Zoo', 'free', 0)`);
});
afterEach(async () => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  await cloudflare.stop();
  rmSync(folder, { recursive: true });
});

const orders = () => cloudflare.d1.find(`${NAME}-orders`);
const keys = () => cloudflare.d1.find(`${NAME}-keys`);
const values = ({ sqlite }: FakeD1, query: string) =>
  sqlite
    .prepare(query)
    .all()
    .map((row) => Object.values(row)[0]);
const read = (name: string) => readFileSync(join(folder, name), "utf8");
const inFolder = (file: string) => join(folder, file);

function logRequest(fields: object): void {
  const seconds = Math.floor(Date.now() / 1_000) - 60;
  cloudflare.analytics.write("store_orders_production", seconds, { ...BANNED, ...fields });
}

/**
 * Runs a line of a document, with `--yes` where it asks, and expects it to succeed.
 *
 * @param change changes the arguments of a command `npm run NAME`.
 * @returns stdout and stderr.
 */
async function type(
  line: string,
  variables: Readonly<Record<string, string>> = {},
  change = (_name: string, args: string[]) => args,
): Promise<[stdout: string, stderr: string]> {
  const { words, input, output } = parseLine(line, variables, read);
  const [program, ...args] = words.filter((word) => word !== "-s");
  if (program === "npx") {
    const command = args.slice(1);
    const runWrangler = REAL.test(command.join(" ")) ? runRealWrangler : runFakeWrangler;
    const { stdout, stderr } = await runWrangler(command);
    return [stdout, stderr];
  }
  const [run, name = ""] = args;
  const load = PROGRAMS[name];
  const isScript = scripts[name] === `node src/operator/main.ts ${name}`;
  if (program !== "npm" || run !== "run" || !isScript || load === undefined) {
    expect(program).toMatch(/^(?:curl|grep)$/);
    const { status, stdout, stderr } = await runCommand("bash", ["-c", line], { env: variables });
    expect(status, `${line}\n${stderr}`).toBe(0);
    return [stdout, stderr];
  }
  const isAsked = /^(?:restore|revoke|rotate|reset|purge)$/.test(args[3] ?? "");
  const typed = [...change(name, args.slice(3)), ...(isAsked ? ["--yes"] : [])];
  const { status, stdout, stderr } = await runInProcess(load(), typed, input);
  expect(status, `${line}\n${stdout}${stderr}`).toBe(0);
  if (output !== undefined) writeFileSync(output, stdout);
  return [stdout, stderr];
}

/** Types all commands of a case of the runbook, and returns what they print on stdout. */
async function follow(title: string, own: Readonly<Record<string, string>> = {}): Promise<string> {
  const { commands, promises } = cases.get(title) ?? { commands: [], promises: [] };
  const URL = cloudflare.addressOf(`${NAME}.example.workers.dev`);
  const variables = { URL, BACKUPS: folder, ID: PETS, KEY: key, ...own };
  const said: string[] = [];
  const warned: string[] = [];
  for (const line of commands.filter((command) => !/^[A-Z]+=/.test(command))) {
    const [stdout, stderr] = await type(line, variables);
    said.push(stdout);
    warned.push(stderr);
  }
  expect(said.length).toBeGreaterThan(0);
  for (const promise of promises) expect([...said, ...warned].join("\n")).toContain(promise);
  return said.join("\n");
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

it("a leaked key: finds its record, ends it and shows who did", async () => {
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
  expect(values(keys(), "SELECT hash FROM api_keys")).not.toContain(hashSecret(key));
});

it("a mistaken ban: lifts it and gives the plan", async () => {
  keys().sqlite.exec(`
    INSERT INTO key_bans (key_id, began_at, ends_at, number) VALUES ('${PETS}', 1, 9999999999999, 1)`);
  const said = await follow("A customer was banned by mistake");
  expect(said).toMatch(/key_pets.* in force/);
  expect(said).toMatch(/key_pets.* lifted /);
  const pets = keys().sqlite.prepare("SELECT plan, resets FROM api_keys WHERE id = ?").get(PETS);
  expect(pets).toEqual({ plan: "business", resets: 1 });
});

it("a flood: shows requests without a key, and a rule that does not block keys", async () => {
  logRequest({ keyId: null, plan: null, code: "unauthorized", represents: 700 });
  expect(await follow("A flood without keys")).toMatch(/anonymous +700 /);
  expect(readFileSync("docs/runbook.md", "utf8")).toContain(`contains "bearer ${SECRET_PREFIX}")`);
});

it("a runaway bill: finds the busiest key, gives it a smaller plan, goes online again", async () => {
  keys().sqlite.exec(`
    INSERT INTO key_usage VALUES ('${PETS}', date('now'), 9000, 0, 0, 0, 300, 9000, 300, 10000, 1)`);
  cloudflare.workers.offWorkersDev.add(NAME);
  expect(await follow("A runaway bill")).toMatch(/Pet shop[^]* 9,000 /);
  expect(values(keys(), `SELECT plan FROM api_keys WHERE id = '${PETS}'`)).toEqual(["free"]);
  expect(cloudflare.workers.offWorkersDev).toEqual(new Set());
});

it("a leaked token: finds the key that no command made, and ends it", async () => {
  keys().sqlite.exec(
    `INSERT INTO key_changes (at, actor, action, key_id, details) VALUES (1, 'ada', 'create', '${PETS}', '{}')`,
  );
  const said = await follow("A Cloudflare token has leaked", { INTRUDER: ZOO });
  expect(said).toMatch(/"id": "key_zoo/);
  expect(said).not.toMatch(/"id": "key_pets/);
  expect(values(keys(), "SELECT id FROM api_keys WHERE revoked_at > 0")).toEqual([ZOO]);
});

it("unreachable objects: shows the minutes in which the fallback limiter decided", async () => {
  logRequest({ degraded: "limiter" });
  expect(await follow("Durable Objects are unreachable")).toMatch(/ limiter +FRA/);
});

it("a slow database: counts orders and keys and shows the import that is under way", async () => {
  orders().sqlite.exec(
    "INSERT INTO order_import_parts (import_id, part, created_at, lines) VALUES ('import-1', 0, 1795000000123, '[]')",
  );
  const said = await follow("A database is slow");
  for (const part of ['"orders": 2', '"keys": 2', '"import-1"']) expect(said).toContain(part);
});

it("a bad deployment: goes back to the version of that name", { timeout: TIMEOUT_MS }, async () => {
  const { versions } = cloudflare.workers.find(NAME);
  const before = versions.upload("v1.3.0");
  versions.deploy(versions.upload("v1.4.0"));
  cloudflare.workers.answer = (_, { version }) =>
    version === before ? HEALTHY : { status: 500, body: "" };
  const said = await follow("A deployment has gone wrong", { VERSION: before });
  // Durable Objects change back at once, too.
  expect(cloudflare.changes.at(-1)).toBe(`deploy ${NAME}: ${before} 100 %`);
  for (const part of ["v1.4.0", "errors since v1.4.0", HEALTHY.body]) expect(said).toContain(part);
});

it("lost orders: keeps what is there, restores, and undoes it, without touching a key", async () => {
  const TIME = orders().timeOf(orders().bookmark());
  orders().sqlite.exec("DELETE FROM orders WHERE id = 1001");
  const BOOKMARK = orders().bookmark();
  writeFileSync(inFolder("backup.ndjson"), `${ORDER}\n{"id":9}\n`);
  const before = keys().sqlite.serialize();
  await follow("Restoring orders", { TIME, BOOKMARK });
  expect(read("before.ndjson")).toBe('{"id":1003,"status":"shipped"}\n');
  expect(read("some.ndjson")).toBe(`${ORDER}\n`);
  expect(read("after.ndjson")).toBe(`${ORDER}\n{"id":1003,"status":"shipped"}\n`);
  expect(values(orders(), "SELECT id FROM orders")).toEqual([1003]);
  expect(Buffer.from(keys().sqlite.serialize()).equals(before)).toBe(true);
});

it("lost keys: keeps what is there, restores, and undoes it again", async () => {
  const TIME = keys().timeOf(keys().bookmark());
  keys().sqlite.exec(`
    INSERT INTO api_keys (id, hash, name, plan, created_at) VALUES ('${NEW}', 'n', 'New', 'free', 1);
    UPDATE api_keys SET revoked_at = 1 WHERE id = '${ZOO}'`);
  const BOOKMARK = keys().bookmark();
  const said = await follow("Restoring keys", { TIME, BOOKMARK });
  expect(said).toContain(`Keys made since, which are gone: ${NEW}.`);
  expect(said).toContain(`npm run keys -- revoke ${ZOO} --env production`);
  expect(said).toMatch(/ ada +restore +key_zoo/);
  const lengths = ["keys", "audit", "bans", "usage"].map(
    (name) => JSON.parse(read(`${name}.json`)).length,
  );
  expect(lengths).toEqual([3, 0, 0, 3]);
  expect(values(keys(), "SELECT id FROM api_keys ORDER BY id")).toEqual([NEW, PETS, ZOO]);
});

it("a restoration without the command: undoes it, restores with the command, reports", async () => {
  const TIME = keys().timeOf(keys().bookmark());
  keys().sqlite.exec(`UPDATE api_keys SET revoked_at = 1 WHERE id = '${ZOO}'`);
  const BEFORE = keys().bookmark();
  keys().restore(keys().bookmarkAt(TIME));
  const said = await follow("Somebody restored without npm run time-travel", { TIME, BEFORE });
  expect(said).toContain(`npm run keys -- revoke ${ZOO} --env production`);
  expect(said).toMatch(/ ada +restore +key_zoo/);
  const [revision] = values(keys(), `SELECT revision FROM api_keys WHERE id = '${ZOO}'`);
  expect(Number(revision)).toBeGreaterThan(Date.parse(TIME));
});

it("backups: writes the orders, and all of each database", { timeout: TIMEOUT_MS }, async () => {
  await follow("Backups of your own");
  const written = readdirSync(folder).map((name) => name.replace(/-\d{4}-\d\d-\d\d/, ""));
  expect(written.toSorted()).toEqual(["keys.sql", "orders.ndjson", "orders.sql"]);
});

/** Stores a part of an import, as an interrupted import does. */
function breakOffImport(): void {
  using sorted = new SortedOrders();
  sorted.add(1, parseOrder(ORDER));
  orders()
    .sqlite.prepare("INSERT OR IGNORE INTO order_import_parts VALUES (?, 0, ?, ?)")
    .run(importIdOf(sorted), Date.now(), `[${[...sorted.texts()].join()}]`);
}

/**
 * The commands `keys rotate` and then `keys revoke` come last: a rotation replaces the secret, whose
 * last characters `keys find` searches for, and a revoked key cannot be rotated.
 */
const byEnd = (line: string) => [/ rotate /, / revoke /].findIndex((end) => end.test(line));

it("every command of docs/operating.md succeeds", async () => {
  cloudflare.deployService("staging");
  const store = new StoreFolder();
  await store.make();
  writeFileSync(inFolder("key.txt"), `${key}\n`);
  writeFileSync(inFolder("orders.ndjson"), `${ORDER}\n`);
  writeFileSync(inFolder("orders.ndjson.gz"), gzipSync(`${ORDER}\n`));
  const bookmark = orders().bookmark();
  // test/process and deploy.node.test.ts run the other commands.
  const lines = readCases("docs/operating.md")
    .flatMap(({ commands }) => commands)
    .filter((line) => !/^npm start\b|npm run deploy\b/.test(line))
    .toSorted((one, other) => byEnd(one) - byEnd(other));
  expect(lines.length).toBeGreaterThanOrEqual(30);
  for (const line of lines) {
    if (line.includes("--resume")) breakOffImport();
    const [stdout, stderr] = await type(line, {}, (name, args) => {
      const typed = args.map((word) => {
        if (word === "ID") return PETS;
        if (name === "time-travel" && /^\d{4}-/.test(word)) return orders().timeOf(bookmark);
        return /^[\w.-]+\.(?:ndjson|ndjson\.gz|html)$/.test(word) ? inFolder(word) : word;
      });
      const isOnStore = ["keys", "orders"].includes(name) && !typed.includes("--env");
      const isOnLocalService = name === "verify" && !/--env|--url/.test(typed.join(" "));
      return [
        ...typed,
        ...(isOnStore ? ["--env", "production"] : []),
        ...(isOnLocalService ? ["--persist-to", store.path] : []),
      ];
    });
    expect(stdout + stderr, line).not.toBe("");
  }
  store.remove();
});
