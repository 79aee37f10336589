import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { PROGRAMS } from "../../../src/operator/programs.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { hashSecret, SECRET_PREFIX } from "../../../src/rules/keys/secret.ts";
import { runInProcess } from "../in-process.ts";
import { parseLine, readCases } from "./documents.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { REQUEST } from "./fake-analytics.ts";
import type { FakeD1 } from "./fake-d1.ts";
import { HEALTHY, UNAUTHORIZED } from "./fake-workers.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { runCommand } from "./run-command.ts";

const runRealWrangler = wrangler.runWrangler;
const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync("package.json", "utf8"),
);

const NAME = "store-orders-production";
const PETS = "key_petspetspetspets";
const ZOO = "key_zoozoozoozoozooz";
const NEW = "key_newnewnewnewnewn";
const ORDER = '{"id":1001,"status":"pending"}';
const SHIPPED = '{"id":9223372036854775807,"status":"shipped"}';
const BANNED = { ...REQUEST, keyId: PETS, status: 429, code: "api_key_banned" } as const;
/** The time limit of one runbook case. A rollback starts the real wrangler, which takes seconds. */
const TIMEOUT_MS = 180_000;

const PAGE = readFileSync("docs/runbook.md", "utf8");
const cases = new Map(readCases("docs/runbook.md").map((found) => [found.title, found]));

let cloudflare: FakeCloudflare;
let folder: string;
const key = generateSecret();

beforeEach(async () => {
  vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
  cloudflare = new FakeCloudflare();
  await cloudflare.start();
  vi.stubEnv("STORE_ORDERS_ACTOR", "ada");
  folder = mkdtempSync(join(tmpdir(), "store-orders-documents-"));
  cloudflare.deployService("production");
  logRequest(BANNED);
  orders().sqlite.exec(
    "INSERT INTO orders (id, status) VALUES (1001, 'pending'), (9223372036854775807, 'shipped')",
  );
  keys().sqlite.exec(`
    INSERT INTO api_keys (id, hash, last_four, name, plan, created_at) VALUES
      ('${PETS}', '${hashSecret(key)}', 'wxyz', 'Pet shop', 'pro', 0),
      ('${ZOO}', 'b', 'abcd', 'Zoo', 'free', 0)`);
});
afterEach(async () => {
  vi.restoreAllMocks();
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

function logRequest(fields: object): void {
  const seconds = Math.floor(Date.now() / 1_000) - 60;
  cloudflare.analytics.write("store_orders_production", seconds, { ...BANNED, ...fields });
}

/** Runs a line of the runbook, adds `--yes` if the command asks, and returns stdout and stderr. */
async function type(line: string, variables: Readonly<Record<string, string>>): Promise<string[]> {
  const { words, input, output } = parseLine(line, variables);
  const [program, ...args] = words.filter((word) => word !== "-s");
  if (program === "npx") {
    // Runs the slow, real wrangler only for a rollback, which the fake wrangler does not support.
    const runWrangler = args[1] === "rollback" ? runRealWrangler : runFakeWrangler;
    const { stdout, stderr } = await runWrangler(args.slice(1));
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
  const isAsked = /^(?:restore|revoke|rotate|reset)$/.test(args[3] ?? "");
  const typed = [...args.slice(3), ...(isAsked ? ["--yes"] : [])];
  const { status, stdout, stderr } = await runInProcess(await load(), typed, input);
  expect(status, `${line}\n${stdout}${stderr}`).toBe(0);
  if (output !== undefined) writeFileSync(output, stdout);
  return [stdout, stderr];
}

/** Runs a case's commands, expects the output that the runbook shows, and returns all output. */
async function follow(title: string, own: Readonly<Record<string, string>> = {}): Promise<string> {
  const { commands, promises } = cases.get(title) ?? { commands: [], promises: [] };
  const URL = cloudflare.addressOf(`${NAME}.example.workers.dev`);
  const variables = { URL, BACKUPS: folder, ID: PETS, KEY: key, ...own };
  const said: string[] = [];
  for (const line of commands.filter((command) => !/^[A-Z]+=/.test(command))) {
    said.push(...(await type(line, variables)));
  }
  expect(said).not.toEqual([]);
  for (const promise of promises) expect(said.join("\n")).toContain(promise);
  return said.join("\n");
}

/** The test of each runbook case, by title. Each calls `follow`, which runs the case's commands. */
const CASES: Readonly<
  Record<string, (follow: (variables?: Record<string, string>) => Promise<string>) => Promise<void>>
> = {
  "A key has leaked": async (followCase) => {
    orders().sqlite.exec("INSERT INTO cancelled_orders (cancelled_at, id) VALUES (5000, 9)");
    cloudflare.workers.answer = ({ authorization }) => {
      const hash = hashSecret(authorization.replace("Bearer ", ""));
      const isKnown = values(keys(), "SELECT hash FROM api_keys").includes(hash);
      return isKnown ? { status: 200, body: "[]" } : UNAUTHORIZED;
    };
    const said = await followCase();
    expect(said).toMatch(/id +key_pets\w+\nname +Pet shop/);
    expect(said).toContain('"cancelled": "1970-01-01 00:00:05"');
    expect(said).toMatch(/ ada +rotate +key_pets/);
    expect(said).toMatch(/^401$/m);
    expect(values(keys(), "SELECT hash FROM api_keys")).not.toContain(hashSecret(key));
  },
  "A customer was banned by mistake": async (followCase) => {
    keys().sqlite.exec(`
      INSERT INTO key_bans (key_id, began_at, ends_at, number) VALUES ('${PETS}', 1, 9999999999999, 1)`);
    expect(await followCase()).toMatch(/key_pets.* in force[^]*key_pets.* lifted /);
    const [pets] = keys().sqlite.prepare("SELECT plan, resets FROM api_keys ORDER BY id").all();
    expect(pets).toEqual({ plan: "business", resets: 1 });
  },
  "A flood without keys": async (followCase) => {
    logRequest({ keyId: null, plan: null, code: "unauthorized", represents: 700 });
    expect(await followCase()).toMatch(/anonymous +700 /);
    // The firewall rule in the runbook must not block requests with a key.
    expect(PAGE).toContain(`contains "bearer ${SECRET_PREFIX}")`);
  },
  "A runaway bill": async (followCase) => {
    keys().sqlite.exec(`
      INSERT INTO key_usage VALUES ('${PETS}', date('now'), 9000, 0, 0, 0, 300, 9000, 300, 10000, 1)`);
    cloudflare.workers.offWorkersDev.add(NAME);
    expect(await followCase()).toMatch(/Pet shop[^]* 9,000 /);
    expect(values(keys(), `SELECT plan FROM api_keys WHERE id = '${PETS}'`)).toEqual(["free"]);
    expect(cloudflare.workers.offWorkersDev).toEqual(new Set());
  },
  "A Cloudflare token has leaked": async (followCase) => {
    keys().sqlite.exec(
      `INSERT INTO key_changes (at, actor, action, key_id, details) VALUES (1, 'ada', 'create', '${PETS}', '{}')`,
    );
    const said = await followCase({ INTRUDER: ZOO });
    expect(said).toMatch(/"id": "key_zoo/);
    expect(said).not.toMatch(/"id": "key_pets/);
    expect(values(keys(), "SELECT id FROM api_keys WHERE revoked_at > 0")).toEqual([ZOO]);
  },
  "Durable Objects are unreachable": async (followCase) => {
    logRequest({ degraded: "limiter" });
    expect(await followCase()).toMatch(/ limiter +FRA/);
  },
  "A database is slow": async (followCase) => {
    orders().sqlite.exec(
      "INSERT INTO order_import_parts (import_id, part, created_at, lines) VALUES ('import-1', 0, 1795000000123, '[]')",
    );
    expect(await followCase()).toMatch(/"orders": 2[^]*"keys": 2[^]*"import-1"/);
  },
  "A deployment has gone wrong": async (followCase) => {
    const { versions } = cloudflare.workers.find(NAME);
    const before = versions.upload("v1.3.0");
    versions.deploy(versions.upload("v1.4.0"));
    cloudflare.workers.answer = ({ version }) =>
      version === before ? HEALTHY : { status: 500, body: "" };
    const said = await followCase({ VERSION: before });
    expect(cloudflare.changes.at(-1)).toBe(`deploy ${NAME}: ${before} 100 %`);
    for (const part of ["v1.4.0", "errors since v1.4.0", HEALTHY.body])
      expect(said).toContain(part);
  },
  "Restoring orders": async (followCase) => {
    const TIME = orders().timeOf(orders().bookmark());
    orders().sqlite.exec("DELETE FROM orders WHERE id = 1001");
    const BOOKMARK = orders().bookmark();
    writeFileSync(join(folder, "backup.ndjson"), `${ORDER}\n{"id":9}\n`);
    const before = keys().sqlite.serialize();
    await followCase({ TIME, BOOKMARK });
    expect(read("before.ndjson")).toBe(`${SHIPPED}\n`);
    expect(read("some.ndjson")).toBe(`${ORDER}\n`);
    expect(read("after.ndjson")).toBe(`${ORDER}\n${SHIPPED}\n`);
    expect(values(orders(), "SELECT id || '' FROM orders")).toEqual(["9223372036854775807"]);
    expect(Buffer.from(keys().sqlite.serialize()).equals(before)).toBe(true);
  },
  "Restoring keys": async (followCase) => {
    const TIME = keys().timeOf(keys().bookmark());
    keys().sqlite.exec(`
      INSERT INTO api_keys (id, hash, last_four, name, plan, created_at) VALUES ('${NEW}', 'n', 'abcd', 'New', 'free', 1);
      UPDATE api_keys SET revoked_at = 1 WHERE id = '${ZOO}'`);
    const said = await followCase({ TIME, BOOKMARK: keys().bookmark() });
    expect(said).toContain(`Keys made since, which are gone: ${NEW}.`);
    expect(said).toContain(`npm run keys -- revoke ${ZOO} --env production`);
    expect(said).toMatch(/ ada +restore +key_zoo/);
    const lengths = ["keys", "audit", "bans", "usage"].map(
      (name) => JSON.parse(read(`${name}.json`)).length,
    );
    expect(lengths).toEqual([3, 0, 0, 3]);
    expect(values(keys(), "SELECT id FROM api_keys ORDER BY id")).toEqual([NEW, PETS, ZOO]);
  },
  "Somebody restored without npm run time-travel": async (followCase) => {
    const TIME = keys().timeOf(keys().bookmark());
    keys().sqlite.exec(`UPDATE api_keys SET revoked_at = 1 WHERE id = '${ZOO}'`);
    const BEFORE = keys().bookmark();
    keys().restore(keys().bookmarkAt(TIME));
    const said = await followCase({ TIME, BEFORE });
    expect(said).toContain(`npm run keys -- revoke ${ZOO} --env production`);
    expect(said).toMatch(/ ada +restore +key_zoo/);
  },
  "Backups of your own": async (followCase) => {
    await followCase();
    const written = readdirSync(folder).map((name) => name.replace(/-\d{4}-\d\d-\d\d/, ""));
    expect(written.toSorted()).toEqual(["keys.sql", "orders.ndjson", "orders.sql"]);
  },
};

it("every case of the runbook has a test", () => {
  expect([...cases.keys()]).toEqual(Object.keys(CASES));
});

it.each(Object.entries(CASES))("%s", { timeout: TIMEOUT_MS }, (title, test) =>
  test((variables) => follow(title, variables)),
);

// Parses each command without running it, to find misspelt commands and options.
it("every command of docs/operating.md is known", async () => {
  const lines = readCases("docs/operating.md").flatMap(({ commands }) => commands);
  expect(lines.length).toBeGreaterThanOrEqual(30);
  for (const line of lines) {
    const { words } = parseLine(line.replace(/^PUBLIC_URL=\S+ /, ""));
    const [npm, name = "", ...args] = words.filter((word) => !/^(?:run|-s|--)$/.test(word));
    const program = await PROGRAMS[name]?.();
    expect([npm, program], line).toEqual(["npm", expect.anything()]);
    if (program === undefined) continue;
    let isKnown = false;
    const commands = program.commands.length === 0 ? [program] : program.commands;
    for (const command of commands) command.action(() => void (isKnown = true));
    const { stderr } = await runInProcess(program, args);
    expect(isKnown, `${line}\n${stderr}`).toBe(true);
  }
});
