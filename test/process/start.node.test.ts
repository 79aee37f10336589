import { execFile } from "node:child_process";
import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { isStore, ownFolder } from "../../src/operator/database/local-store.ts";
import { startProgram } from "../../src/operator/start/program.ts";
import { prepareStore } from "../../src/operator/start/sample-store.ts";
import { readHolder } from "../../src/operator/start/store-lock.ts";
import { QUIET_WRANGLER, WRANGLER_BIN } from "../../src/operator/wrangler.ts";
import { failure, runInProcess } from "../operator/commands.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { PATIENCE } from "../support/patience.ts";
import { testFolder } from "../support/test-folder.ts";
import { copyProject, registryOf, Service } from "./service.ts";

const SHOP = join(import.meta.dirname, "../../examples/shop");

const store = new StoreFolder();
const slow = new StoreFolder();
let service: Service;

beforeAll(async () => {
  service = await Service.start(store.path);
});
afterAll(() => service.end("SIGKILL"));

test("npm start on a new store prints a demo key per plan and a curl line, and serves what it says", async () => {
  const { demoKeys, port, stdout } = service;
  expect(stdout).toContain(`Serving on http://localhost:${port} (only on 127.0.0.1)`);
  const answers = await Promise.all(Object.values(demoKeys).map((key) => service.request(key)));
  const policies = answers.map(({ headers }) => headers.get("RateLimit-Policy") ?? "");
  const quotas = policies.map((policy) => policy.match(/(?<=q=)\d+/g));
  expect(quotas.join(" ")).toBe("60,1000 300,10000 1000,100000 5000,500000");

  const [line = ""] = /^ *curl .*$/m.exec(stdout) ?? [];
  const pasted = await promisify(execFile)("sh", ["-c", line]);
  const [head = "", body = ""] = pasted.stdout.split("\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(body).toMatch(/^\[\{"id":-9223372036854775808,.*\{"id":9223372036854775807,.*\]$/);
  expect(body).toContain('"quantity":9223372036854775807,');
});

const HTML = "text/html; charset=utf-8";
const CATALOG = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"';
test.each([
  ["/", 200, HTML, null],
  ["/docs", 200, HTML, null],
  ["/index", 404, "application/json", null],
  ["/reference", 404, "application/json", null],
  ["/openapi.json", 200, "application/json", "*"],
  ["/llms.txt", 200, "text/plain; charset=utf-8", "*"],
  ["/.well-known/api-catalog", 200, CATALOG, "*"],
])("GET %s: %i, without a redirect that repeats the query", async (path, status, type, origin) => {
  const url = `http://127.0.0.1:${service.port}${path}?key=SECRET`;
  const response = await fetch(url, { redirect: "manual" });
  const hsts = status === 200 ? "max-age=31536000" : null;
  const names = ["Content-Type", "Access-Control-Allow-Origin", "Strict-Transport-Security"];
  const found = [...names, "Location"].map((name) => response.headers.get(name));
  expect([response.status, ...found]).toEqual([status, type, origin, hsts, null]);
  const text = await response.text();
  expect(text).not.toContain("SECRET");
  expect(text.includes(`//localhost:${service.port}`)).toBe(status === 200);
});

test("the example of a shop places, ships, hears of cancellations once and hands out keys, beside npm start", async () => {
  // As a shop's developer starts it.
  const folder = new StoreFolder();
  const shop = await Service.launch(folder.path, {
    root: SHOP,
    command: [process.execPath, WRANGLER_BIN, "dev"],
    args: ["--inspector-port", "0"],
    env: {
      ...QUIET_WRANGLER,
      WRANGLER_REGISTRY_PATH: registryOf(store.path),
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
    },
  });
  onTestFinished(() => shop.end("SIGKILL"));
  await shop.until(() => shop.stdout.includes("Ready on"));
  const origin = `http://127.0.0.1:${shop.port}`;
  const post = async (path: string, sent: unknown): Promise<readonly [number, any]> => {
    const headers = { Authorization: "Bearer only-for-development" };
    const body = JSON.stringify(sent);
    const response = await fetch(origin + path, { method: "POST", headers, body });
    return [response.status, await response.json()];
  };
  const query = (statement: string) => {
    const files = globSync(`${folder.path}/v3/d1/*/*.sqlite`);
    using sqlite = new DatabaseSync(files.find((name) => !name.includes("metadata"))!);
    return sqlite.prepare(statement).all().flatMap(Object.values);
  };
  /** Runs the shop's cron. Returns its status and the orders to refund. */
  const runCron = async () => {
    const { status } = await fetch(`${origin}/cdn-cgi/local/scheduled`);
    return [status, ...query("SELECT order_id FROM refunds")];
  };
  const [created, { key }] = await post("/sign-up", { name: "Pet shop" });
  expect(created).toBe(201);
  for (const orderId of ["9007199254740993", "7", "8"]) {
    const placed = await post("/orders", { orderId, petId: "5", quantity: 2 });
    expect(placed).toEqual([201, { ok: true, new: 1, replaced: 0, shipped: 0, unchanged: 0 }]);
  }
  const shipped = { 7: "shipped", 99: "not_found" };
  expect(await post("/shipments", { orderIds: ["7", "99"] })).toEqual([200, shipped]);
  const list = await (await service.request(key)).text();
  expect(list).toContain('{"id":9007199254740993,"petId":5,"quantity":2}');
  const large = "9007199254740993";
  const failing =
    "CREATE TRIGGER full BEFORE INSERT ON heard BEGIN SELECT RAISE(ABORT, 'full'); END";
  for (const [id, cancelled, statement, ...told] of [
    ["7", 409, null, 200],
    [large, 204, failing, 500],
    [large, 404, "DROP TRIGGER full", 200, large],
    ["8", 204, null, 200, large, "8"],
    ["8", 404, null, 200, large, "8"],
  ] as const) {
    expect((await service.request(key, `/${id}`, "DELETE")).status).toBe(cancelled);
    if (statement !== null) query(statement);
    expect(await runCron()).toEqual(told);
  }
  expect(await post("/sign-up", { name: "" })).toMatchObject([400, { code: "invalid_input" }]);
  expect(await store.keysJson("audit", "--limit", "1")).toMatchObject([{ actor: "sign-up" }]);
  expect((await fetch(`${origin}/orders`, { method: "POST" })).status).toBe(401);
});

test("npm start refuses a store that is served, a port in use before it creates databases and keys, and a full disk", async () => {
  const { pid, port } = service;
  const unmade = join(store.path, "refused");
  // A file system without free space on every machine.
  const full = "/proc/self/task";
  const elsewhere = "serve another store on another port (--persist-to DIR --port N)";
  const served = `process ${pid} already serves the store ${store.path} on port ${port}`;
  for (const [path, message] of [
    [store.path, `${served}: end it first, or ${elsewhere}\n`],
    [unmade, `port ${port} cannot be used (`],
    [full, `The disk of ${full} is full: make room, and run the same command again\n`],
  ] as const) {
    const args = ["--port", String(port), "--persist-to", path];
    expect(await runInProcess(startProgram(), args)).toEqual(failure(message));
  }
  expect(isStore(unmade)).toBe(false);
});

test("after a kill, one of two starts at once serves the store with its data", async () => {
  const { pro } = service.demoKeys;
  const list = async (from: Service) => (await from.request(pro)).text();
  expect((await service.request(pro, "/9223372036854775807", "DELETE")).status).toBe(204);
  const before = await list(service);
  const keys = await store.keysJson("list");
  {
    using orders = await openLocalDatabase(store.path, "orders");
    using usage = await openLocalDatabase(store.path, "keys");
    // Housekeeping fails to delete old usage, and deletes the old part of an import.
    await usage.orm.run(sql`INSERT INTO key_usage
      VALUES ('key_old', '1970-01-01', 1, 0, 0, 0, 1, 1, 60, 1000, 0)`);
    await usage.orm.run(sql`CREATE TRIGGER kept BEFORE DELETE ON key_usage
      BEGIN SELECT RAISE(ABORT, 'kept'); END`);
    await orders.orm.run(sql`INSERT INTO order_import_parts VALUES ('left', 0, 0, '[]')`);
  }
  process.kill(service.pid, "SIGKILL");
  await service.exited();
  expect(readHolder(store.path)).toBeNull();
  // Records a live process id, as if another program had received the killed service's id.
  const holder = { pid: process.pid, port: service.port };
  writeFileSync(join(ownFolder(store.path), "service.json"), JSON.stringify(holder));
  // Processes of the killed service may still run.
  const both = await Promise.all([Service.launch(store.path), Service.launch(store.path)]);
  for (const candidate of both) onTestFinished(() => candidate.end("SIGKILL"));

  expect(await Promise.race(both.map((candidate) => candidate.exited()))).toBe(1);
  const [loser, winner] = both[0]!.hasExited ? both : both.toReversed();
  expect(loser!.stderr).toContain(`process ${winner!.pid} already serves `);

  // `npm start` itself triggers housekeeping, because `wrangler dev` never runs cron triggers.
  const failed = "Housekeeping failed and is tried again in an hour: answered 500.\n";
  await winner!.until(() => winner!.stderr.includes(failed));
  expect(winner!.stderr).toContain('{"event":"housekeeping","importParts":1,');
  expect(service.processes()).toEqual([]);
  expect(winner!.stdout).toContain(
    `npm run keys -- create --plan free --name "My client" --persist-to ${store.path}`,
  );
  expect(await list(winner!)).toBe(before);
  expect(await store.keysJson("list")).toEqual(keys);

  // Ends with status 1, and says why, if the workerd that listens dies.
  const workerd = winner!.processes().find(({ command }) => command.includes("workerd serve"));
  process.kill(workerd!.id, "SIGKILL");
  expect(await winner!.exited()).toBe(1);
  expect(winner!.stderr).toContain("workerd, which runs the service, has ended (SIGKILL).");
  await vi.waitUntil(() => winner!.processes().length === 0, PATIENCE);
  expect(existsSync(join(ownFolder(store.path), "service.json"))).toBe(false);
  expect(winner!.stderr.split(failed)).toHaveLength(2);
  expect(winner!.stdout).not.toMatch(/sord_|"event"/);
});

test("a change of the source is served by the same npm start, which keeps what was counted", async () => {
  const root = copyProject(testFolder());
  const edited = await Service.start(join(root, "store"), { root });
  onTestFinished(() => edited.end("SIGKILL"));
  const left = async () =>
    (await edited.request(edited.demoKeys.pro, "/none")).headers.get("RateLimit");
  expect(await left()).toContain("r=299");
  const file = join(root, "src/worker/app.ts");
  writeFileSync(file, readFileSync(file, "utf8").replace("There is nothing at this", "No such"));
  const isNew = async () =>
    (await (await fetch(`http://127.0.0.1:${edited.port}/none`)).text()).includes("No such path");
  await vi.waitUntil(() => isNew().catch(() => edited.hasExited), PATIENCE);
  expect(await left()).toContain("r=298");
});

test.each(["SIGCONT", "SIGKILL"])(
  "a start waits as long as workerd lives, and says that it waits: then %s",
  async (signal) => {
    const command = [process.execPath, "test/process/stopped-workerd.ts", signal];
    const home = testFolder();
    const config = join(home, "config");
    const env = { HOME: home, XDG_CONFIG_HOME: config, WRANGLER_REGISTRY_PATH: undefined };
    const starting = await Service.launch(slow.path, { command, args: ["--empty"], env });
    onTestFinished(() => starting.end("SIGKILL"));
    if (signal === "SIGCONT") {
      await starting.until(() => starting.stdout.includes("Serving on"));
      expect(readdirSync(join(config, ".wrangler/registry"))).not.toEqual([]);
      process.kill(starting.pid, "SIGHUP");
    }
    expect(await starting.exited()).toBe(signal === "SIGCONT" ? 0 : 1);
    const preparing = `Preparing a new store in ${slow.path}: two databases. This`;
    const doing = signal === "SIGCONT" ? preparing : "Starting the service, which";
    expect(starting.stderr.split(" takes some seconds ...\n")[0]).toBe(doing);
    const notices = starting.stderr.match(/^Still starting: workerd is not ready after \d+ s/gm);
    expect(notices?.length).toBeGreaterThanOrEqual(3);
    const failed = /\nerror: the service did not start: .+\n$/.test(starting.stderr);
    expect(failed).toBe(signal === "SIGKILL");
  },
);

test("--empty adds no keys and orders, also later; a signal to npm alone ends all processes", async () => {
  const empty = new StoreFolder();
  const options = { args: ["--empty"], command: ["npm", "start", "--"] };
  const starting = await Service.launch(empty.path, options);
  onTestFinished(() => starting.end("SIGKILL"));
  // After the databases, `npm start` makes this folder.
  await starting.until(() => existsSync(join(ownFolder(empty.path), "site")));
  await starting.end("SIGTERM");
  expect(await prepareStore(empty.path, false)).toEqual([]);
  expect(await empty.keysJson("list")).toEqual([]);
  expect((await empty.orders(["export"])).stdout).toBe("");
});
