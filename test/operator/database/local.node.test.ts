import { existsSync, globSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { sql } from "drizzle-orm";
import { afterEach, describe, expect, test, vi } from "vitest";
import { openLocalDatabase, openLocalStore } from "../../../src/operator/database/local.ts";
import { prepareStore } from "../../../src/operator/start/sample-store.ts";
import { PROGRAMS } from "../../../src/operator/programs.ts";
import { PROJECT_ROOT } from "../../../src/operator/wrangler.ts";
import type { Outcome } from "../deploy/run-command.ts";
import { runInProcess } from "../in-process.ts";
import { StoreFolder } from "../store-folder.ts";

let store = new StoreFolder();
afterEach(() => {
  vi.restoreAllMocks();
  store.remove();
  store = new StoreFolder();
});

/** The names of the files in which wrangler 4.155 keeps the databases. */
const WRANGLER_FILES = {
  orders: "8b597f72425999db712922162cee3af8be219fa654f951e5fd0326804a54642b",
  keys: "8dcd3b3d8f49cd24dbefea1e5438ede8d7c385460dd5a525db0c9c9163177f04",
};

/** Opens the only database file of the store, as another program would. */
function databaseFile(): DatabaseSync {
  const [file = ""] = globSync(`${store.path}/v3/d1/*/*.sqlite`);
  return new DatabaseSync(file);
}

function valuesOf(sqlite: DatabaseSync, query: string): unknown[] {
  const rows = sqlite.prepare(query).all();
  return rows.flatMap((row) => Object.values(row));
}

test.each(["orders", "keys"] as const)(
  "a store that has its %s is not new, so it gets no sample data",
  async (name) => {
    await (await openLocalDatabase(store.path, name)).close();
    expect(await prepareStore(store.path, false)).toEqual([]);
    const orders = await openLocalDatabase(store.path, "orders");
    expect(await orders.orm.all(sql.raw("SELECT * FROM orders"))).toEqual([]);
    await orders.close();
  },
);

test("a store that was made empty stays empty", async () => {
  for (const empty of [true, false]) expect(await prepareStore(store.path, empty)).toEqual([]);
});

test("after a transaction that failed, the next one succeeds", async () => {
  await using database = await openLocalStore(store.path);
  const insert = (id: number, or = "") => sql.raw(`INSERT ${or} INTO orders (id) VALUES (${id})`);
  // `OR ROLLBACK` simulates errors after which SQLite itself rolls back, such as a full disk.
  for (const or of ["OR ABORT", "OR ROLLBACK"]) {
    const failing = database.orders.transaction([insert(1), insert(1, or)]);
    await expect(failing).rejects.toThrow("UNIQUE");
  }
  await database.orders.transaction([insert(2)]);
  expect(await database.orders.orm.all(sql.raw("SELECT id FROM orders"))).toEqual([[2]]);
});

test("a new database records every migration for wrangler, and is in WAL mode like workerd's", async () => {
  const database = await openLocalDatabase(store.path, "orders");
  await database.close();
  using sqlite = databaseFile();
  const migrations = readdirSync(join(PROJECT_ROOT, "migrations/orders"));
  expect(valuesOf(sqlite, "SELECT name FROM d1_migrations ORDER BY id")).toEqual(
    migrations.filter((name) => name.endsWith(".sql")).toSorted(),
  );
  expect(valuesOf(sqlite, "PRAGMA journal_mode")).toEqual(["wal"]);
});

test("a migration that fails leaves the database unchanged, and the error names the store", async () => {
  await (await openLocalDatabase(store.path, "orders")).close();
  using sqlite = databaseFile();
  sqlite.exec("DROP TABLE d1_migrations");
  const tables = "SELECT name FROM sqlite_master ORDER BY name";
  const before = valuesOf(sqlite, tables);
  const close = vi.spyOn(DatabaseSync.prototype, "close");
  await expect(openLocalDatabase(store.path, "orders")).rejects.toThrow(
    `the store in ${store.path} could not be opened: table`,
  );
  expect(close).toHaveBeenCalledOnce();
  expect(valuesOf(sqlite, tables)).toEqual(before);
});

test("the store's files are those of wrangler", async () => {
  await store.make();
  const names = globSync(`${store.path}/v3/d1/*/*.sqlite`).map((file) => basename(file, ".sqlite"));
  expect(names.toSorted()).toEqual(Object.values(WRANGLER_FILES).toSorted());
});

describe("on a disk that cannot be written to", () => {
  test("list and export work, and a change is refused", async () => {
    await store.ordersJson(["import", "-"], '{"id":7}');
    const { id } = await store.keysJson("create", "--plan", "free", "--name", "Zoo");
    // Leaves a `-wal` file with the last change, as a running service would.
    const file = globSync(`${store.path}/v3/d1/*/${WRANGLER_FILES.orders}.sqlite`)[0] ?? "";
    using running = new DatabaseSync(file);
    running.exec("INSERT INTO orders (id) VALUES (8)");
    const { prototype } = DatabaseSync;
    const prepare = Reflect.get(prototype, "prepare");
    vi.spyOn(prototype, "prepare").mockImplementation(function (this: DatabaseSync, query) {
      if (this.location()?.startsWith(store.path)) throw new Error("unable to open database file");
      return Reflect.apply(prepare, this, [query]);
    });
    expect((await store.orders(["export"])).stdout).toBe(
      '{"id":7,"status":"pending"}\n{"id":8,"status":"pending"}\n',
    );
    expect(await store.keysJson("list")).toMatchObject([{ id }]);
    const refused = await store.keys("revoke", id);
    expect(refused.status).toBe(1);
    expect(refused.stderr).toMatch(/the store in .* was not changed: .*readonly database/);
  });
});

describe("in a folder without a store", () => {
  const missing = () => join(store.path, "strore");
  async function run(line: string, input?: string): Promise<Outcome> {
    const [name = "", ...args] = line.split(" ");
    const program = await PROGRAMS[name]!();
    return runInProcess(program, [...args, "--persist-to", missing()], input);
  }

  test.each([
    "keys list",
    "keys show key_a",
    "keys update key_a --name B",
    "keys rotate key_a",
    "keys revoke key_a",
    "keys reset key_a",
    "keys audit",
    "keys usage",
    "orders export",
    "orders export /dev/null --one-moment",
    "verify --read-only",
  ])("%s is refused and makes nothing", async (line) => {
    const { status, stderr } = await run(line);
    expect(status).toBe(1);
    expect(stderr).toContain(`error: there is no store in ${missing()}, so nothing was done`);
    expect(existsSync(missing())).toBe(false);
  });

  test("an import with --dry-run only checks its file", async () => {
    const { status, stdout } = await run("orders import - --dry-run", '{"id":1}');
    expect([status, stdout]).toEqual([
      0,
      "Would import 1 order: 1 new, 0 replaced, 0 shipped, 0 unchanged.\n",
    ]);
    expect(existsSync(missing())).toBe(false);
  });

  test.each([
    ["keys create --plan free --name A", undefined],
    ["orders import -", '{"id":1}'],
  ])("%s fails clearly if the folder is a file, and makes nothing", async (line, input) => {
    mkdirSync(store.path, { recursive: true });
    writeFileSync(missing(), "");
    const { status, stdout, stderr } = await run(line, input);
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toBe(
      `error: the store in ${missing()} could not be opened: ${missing()} is a file, not a folder: name another one\n`,
    );
  });

  test.each([
    ["keys create --plan free --name A", undefined],
    ["orders import -", '{"id":1}'],
  ])("%s makes a store and says so", async (line, input) => {
    const { status, stderr } = await run(line, input);
    expect(status).toBe(0);
    expect(stderr).toMatch(new RegExp(`^Made a new store in ${missing()}\\.$`, "m"));
    expect((await run("keys list --json")).status).toBe(0);
    expect((await run("orders export")).status).toBe(0);
    // A `-wal` file would remain if a command had not closed its database.
    expect(globSync(`${missing()}/**/*-wal`)).toEqual([]);
  });
});
