import { cpSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { PROJECT_ROOT, runWrangler } from "../../../src/operator/wrangler.ts";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { IMPORT_SIZES } from "../../../src/operator/orders/import.ts";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import { testFolder } from "../../support/test-folder.ts";
import { failure, runInProcess } from "../commands.ts";
import { StoreFolder } from "../store-folder.ts";

const KEY = "key_abcdefghijklmnop";
const store = new StoreFolder();
const restored = new StoreFolder();
const other = new StoreFolder();
let backup: string;

const [NOON, NIGHT] = ["2026-11-20T12:00:00.000Z", "2026-11-20T23:00:00.000Z"];
/** Returns the line of a cancelled order. */
const cancelled = (id: number, time: Date | string, position?: number | bigint) =>
  `{"id":${id},"status":"cancelled","cancelledAt":"${new Date(time).toISOString()}"` +
  (position === undefined ? "}" : `,"position":${position}}`);

beforeAll(async () => {
  const lines = [
    `{"id":${INT64_MIN},"petId":${INT64_MAX},"quantity":0,"complete":false}`,
    `{"id":${INT64_MAX},"shipDate":"2026-11-20T08:30:00.125Z","status":"shipped"}`,
  ];
  await store.ordersJson(["import", "-"], lines.join("\n"));
  using sqlite = new DatabaseSync(databaseFile(store.path, "orders"));
  // The same order was cancelled twice, and an order is placed that has been cancelled before.
  sqlite.exec(`INSERT INTO cancelled_orders
    (position, cancelled_at, cancelled_by, id, pet_id, quantity, ship_date, complete) VALUES
    (1795000000000000, 1795000000000, '${KEY}', ${INT64_MAX - 1n}, ${INT64_MIN}, 5, '2026-11-20T08:30:00.000Z', 1),
    (1795000000000001, 1795000000000, NULL, ${INT64_MAX - 1n}, NULL, NULL, NULL, NULL),
    (1795000000000777, 1795000000001, '${KEY}', ${INT64_MIN}, NULL, NULL, NULL, 0)`);
  ({ stdout: backup } = await store.orders(["export", "--all"]));
});

test("a backup with cancelled orders restores an empty store, byte for byte", async () => {
  expect(backup.split("\n").slice(2, 4)).toEqual([
    `{"id":${INT64_MAX - 1n},"petId":${INT64_MIN},"quantity":5,"shipDate":"2026-11-20T08:30:00.000Z","complete":true,"status":"cancelled","cancelledAt":"2026-11-18T11:06:40.000Z","cancelledBy":"${KEY}","position":1795000000000000}`,
    `{"id":${INT64_MAX - 1n},"status":"cancelled","cancelledAt":"2026-11-18T11:06:40.000Z","position":1795000000000001}`,
  ]);
  const counts = { new: 2, replaced: 0, shipped: 0, unchanged: 0, cancelled: 3 };
  const dryRun = await restored.ordersJson(["import", "-", "--dry-run"], backup);
  expect(dryRun).toEqual({ wouldImport: 5, ...counts });
  expect(await restored.ordersJson(["import", "-"], backup)).toEqual({ imported: 5, ...counts });
  expect((await restored.orders(["export", "--all"])).stdout).toBe(backup);
  // The same command again changes nothing, and so does a part of the backup.
  const unchanged = { new: 0, replaced: 0, shipped: 0, unchanged: 5, cancelled: 0 };
  expect(await restored.ordersJson(["import", "-"], backup)).toEqual({ imported: 5, ...unchanged });
  const placed = backup.replace(/.*"cancelled".*\n/g, "");
  expect((await restored.orders(["export"])).stdout).toBe(placed);
});

test("the documented backup of keys restores an empty database, byte for byte", async () => {
  const runbook = readFileSync(join(PROJECT_ROOT, "docs/runbook.md"), "utf8");
  const folders = [testFolder(), testFolder()] as const;
  for (const each of folders) cpSync("wrangler.toml", join(each, "wrangler.toml"));
  /** Runs a documented command of wrangler on the local store in a folder like the project's. */
  const run = (command: string, folder: string, file: string) => {
    const documented = new RegExp(`(?<=npx wrangler )d1 ${command} KEYS .*--(?:output|file)(?= )`);
    const [line = ""] = documented.exec(runbook) ?? [];
    const words = line.replace("--remote --env production", "--local").split(" ");
    return runWrangler([...words, file, "--cwd", folder]);
  };
  const [from, to] = folders;
  const keys = async (folder: string, ...args: string[]) => {
    const state = ["--persist-to", join(folder, ".wrangler/state"), "--json"];
    return JSON.parse((await runInProcess(keysProgram(), [...args, ...state])).stdout);
  };
  const { id } = await keys(from, "create", "--plan", "pro", "--name", 'O\'Brien; ☕ "é"');
  const enterprise = "create --plan enterprise --per-minute 7 --per-day 9 --name".split(" ");
  await keys(from, ...enterprise, "-- A");
  await keys(from, "rotate", id, "--grace", "7d");
  await keys(from, "rotate", id);
  await keys(from, "revoke", id);
  const [first, second] = [join(from, "keys.sql"), join(to, "keys.sql")];
  await run("export", from, first);
  await run("execute", to, first);
  await run("export", to, second);
  expect(readFileSync(second, "utf8")).toBe(readFileSync(first, "utf8"));
  for (const command of ["list", "audit"]) {
    expect(await keys(to, command)).toEqual(await keys(from, command));
  }
});

test("a store with orders takes no cancelled ones, and a file whose positions clash is refused", async () => {
  const [one, same, none] = [5, 5, undefined].map((position, index) =>
    cancelled(index, NOON, position),
  );
  const importing = (...lines: (string | undefined)[]) =>
    restored.orders(["import", "-"], lines.join("\n"));
  const first = await importing('{"id":9}', one);
  expect(first).toEqual(failure("which only an empty store takes"));
  expect(first.stderr).not.toContain("run the same command again");
  expect(await importing(one, same)).toEqual(failure("line 2: position: 5 occurs"));
  expect(await importing(one, none)).toEqual(failure("line 2: position: missing, but other"));
  expect((await restored.orders(["export", "--all"])).stdout).toBe(backup);
});

test("cancelled orders of a later time than the database's are refused with their lines, and make no store", async () => {
  const soon = new Date(Date.now() + 3_600_000);
  const lines = [
    cancelled(1, soon, 1),
    cancelled(1, new Date(0), soon.getTime() * 1_000),
    cancelled(1, new Date(1), 2n ** 53n - 1n),
    cancelled(1, new Date(2), 2),
  ];
  const line = ["import", "-", "--persist-to", other.path];
  for (const options of [["--dry-run"], []]) {
    const refused = await runInProcess(ordersProgram(), [...line, ...options], lines.join("\n"));
    expect(refused.status).toBe(1);
    expect(refused.stderr).toMatch(
      /1: cancelledAt: later.*\n.*2: position: later.*\n.*3: position: later/,
    );
  }
  const many = Array.from({ length: 12 }, (_, id) => cancelled(id, soon, id + 1));
  expect(await runInProcess(ordersProgram(), line, many.join("\n"))).toEqual(
    failure("12 orders are bad: nothing was imported. The first 10:"),
  );
  expect(existsSync(databaseFile(other.path, "orders"))).toBe(false);
});

test("cancelled orders without positions get them by their times", async () => {
  // Each order is a part of its own.
  const { partBytes } = IMPORT_SIZES;
  IMPORT_SIZES.partBytes = 1;
  onTestFinished(() => void (IMPORT_SIZES.partBytes = partBytes));
  const lines = [cancelled(4, NIGHT), ...[3, 2, 1].map((id) => cancelled(id, NOON))];
  await other.ordersJson(["import", "-"], lines.join("\n"));
  const { stdout } = await other.orders(["export", "--all"]);
  const position = Date.parse(NOON) * 1_000;
  const first = [1, 2, 3].map((id) => cancelled(id, NOON, position + id - 1));
  expect(stdout.split("\n").slice(0, 3)).toEqual(first);
  const late = cancelled(1, new Date(Date.now() + 3_600_000), 1);
  for (const options of [["--dry-run"], []]) {
    const refused = failure("line 1: cancelledAt: later than the database's present time");
    expect(await other.orders(["import", "-", ...options], late)).toEqual(refused);
  }
});

test("show prints an order, cancelled or not, and which key cancelled it", async () => {
  const show = async (id: unknown, ...options: string[]) =>
    (await store.orders(["show", String(id), ...options])).stdout;
  expect(await show(INT64_MAX - 1n, "--json")).toBe(
    `{"id":${INT64_MAX - 1n},"cancelledAt":"2026-11-18T11:06:40.000Z","status":"cancelled"}\n`,
  );
  expect(await show(INT64_MAX)).toMatch(/9223372036854775807[^]*shipped/);
  using sqlite = new DatabaseSync(databaseFile(store.path, "orders"));
  sqlite.exec("DELETE FROM cancelled_orders WHERE cancelled_by IS NULL");
  const text = await show(INT64_MAX - 1n);
  for (const each of [KEY, "2026-11-18"]) expect(text).toContain(each);
  expect(await store.orders(["show", "5"])).toEqual(failure("no order has, or had, the id 5"));
  expect(await store.orders(["show", "x"])).toEqual(failure("Expected an integer", 2));
});
