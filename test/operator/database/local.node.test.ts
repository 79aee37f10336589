import { existsSync, globSync, mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { sql } from "drizzle-orm";
import { afterEach, describe, expect, test, vi } from "vitest";
import { openLocalDatabase, openLocalStore } from "../../../src/operator/database/local.ts";
import { isStore } from "../../../src/operator/database/local-store.ts";
import { PROGRAMS } from "../../../src/operator/programs.ts";
import { PROJECT_ROOT } from "../../../src/operator/wrangler.ts";
import { failure, runInProcess } from "../in-process.ts";
import { StoreFolder } from "../store-folder.ts";

let store = new StoreFolder();
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  store.remove();
  store = new StoreFolder();
});

/** The names of the files in which wrangler 4.155 keeps the databases. */
const WRANGLER_FILES = {
  orders: "8b597f72425999db712922162cee3af8be219fa654f951e5fd0326804a54642b",
  keys: "8dcd3b3d8f49cd24dbefea1e5438ede8d7c385460dd5a525db0c9c9163177f04",
};

const filesOf = (folder: string, end = "") => globSync(`${folder}/v3/d1/*/*.sqlite${end}`);

/** Opens the file of the store's orders, as another program would. */
function openFile(): DatabaseSync {
  return new DatabaseSync(
    filesOf(store.path).find((file) => file.includes(WRANGLER_FILES.orders))!,
  );
}

function valuesOf(sqlite: DatabaseSync, query: string): unknown[] {
  const rows = sqlite.prepare(query).all();
  return rows.flatMap((row) => Object.values(row));
}

test.each(["orders", "keys"] as const)("a store that has its %s is a store", async (name) => {
  expect(isStore(store.path)).toBe(false);
  await (await openLocalDatabase(store.path, name)).close();
  expect(isStore(store.path)).toBe(true);
});

test("after a transaction that failed, the next one succeeds; and what D1 refuses fails", async () => {
  await using database = await openLocalStore(store.path);
  const insert = (id: number, or = "") => sql.raw(`INSERT ${or} INTO orders (id) VALUES (${id})`);
  // `OR ROLLBACK` simulates errors after which SQLite itself rolls back, such as a full disk.
  for (const or of ["OR ABORT", "OR ROLLBACK"]) {
    const failing = database.orders.transaction([insert(1), insert(1, or)]);
    await expect(failing).rejects.toThrow("UNIQUE");
  }
  await database.orders.transaction([insert(2)]);
  expect(await database.orders.orm.all(sql.raw("SELECT id FROM orders"))).toEqual([[2]]);
  const bound = (count: number) => sql`SELECT ${sql.join(Array(count).fill(sql`${"x"}`), sql`, `)}`;
  expect(await database.orders.orm.all(bound(100))).toHaveLength(1);
  await expect(database.orders.orm.all(bound(101))).rejects.toThrow();
});

test("a new store has wrangler's files and migrations, in WAL mode like workerd's", async () => {
  await store.make();
  const names = filesOf(store.path).map((file) => basename(file, ".sqlite"));
  expect(names.toSorted()).toEqual(Object.values(WRANGLER_FILES).toSorted());
  using sqlite = openFile();
  const migrations = readdirSync(join(PROJECT_ROOT, "migrations/orders"));
  expect(valuesOf(sqlite, "SELECT name FROM d1_migrations ORDER BY id")).toEqual(
    migrations.filter((name) => name.endsWith(".sql")).toSorted(),
  );
  expect(valuesOf(sqlite, "PRAGMA journal_mode")).toEqual(["wal"]);
});

test("a migration that fails leaves the database unchanged, and the error names the store", async () => {
  await store.make();
  using sqlite = openFile();
  sqlite.exec("DROP TABLE d1_migrations");
  const tables = "SELECT name FROM sqlite_master ORDER BY name";
  const before = valuesOf(sqlite, tables);
  await expect(openLocalDatabase(store.path, "orders")).rejects.toThrow(
    `the store in ${store.path} could not be opened: table`,
  );
  expect(valuesOf(sqlite, tables)).toEqual(before);
});

test("on a disk that cannot be written to, list and export work, and a change is refused", async () => {
  await store.ordersJson(["import", "-"], '{"id":7}');
  const { id } = await store.keysJson("create", "--plan", "free", "--name", "Zoo");
  // Leaves a `-wal` file with the last change, as a running service would.
  using running = openFile();
  running.exec("INSERT INTO orders (id) VALUES (8)");
  const { prototype } = DatabaseSync;
  const prepare = Reflect.get(prototype, "prepare");
  vi.spyOn(prototype, "prepare").mockImplementation(function (this: DatabaseSync, query) {
    if (this.location()?.startsWith(store.path)) throw new Error("unable to open database file");
    return Reflect.apply(prepare, this, [query]);
  });
  const copies = mkdtempSync(join(tmpdir(), "store-orders-copies-"));
  vi.stubEnv("TMPDIR", copies);
  expect((await store.orders(["export"])).stdout).toBe(
    '{"id":7,"status":"pending"}\n{"id":8,"status":"pending"}\n',
  );
  expect(await store.keysJson("list")).toMatchObject([{ id }]);
  const refused = await store.keys("revoke", id);
  expect(refused.status).toBe(1);
  expect(refused.stderr).toMatch(/the store in .* was not changed: .*readonly database/);
  expect(readdirSync(copies)).toEqual([]);
  rmdirSync(copies);
});

describe("in a folder without a store", () => {
  const missing = () => join(store.path, "strore");
  async function run(line: string) {
    const [name = "", ...args] = line.split(" ");
    const program = await PROGRAMS[name]!();
    return runInProcess(program, [...args, "--persist-to", missing()], '{"id":1}');
  }

  const lines =
    "keys list,keys show A,keys update A --name B,keys rotate A,keys revoke A,keys reset A,keys audit," +
    "keys usage,orders export,orders export /dev/null --one-moment,verify --read-only";
  test("commands other than import and create are refused and make nothing", async () => {
    for (const line of lines.split(",")) {
      const refused = failure(`error: there is no store in ${missing()}, so nothing was done`);
      expect(await run(line), line).toEqual(refused);
      expect(existsSync(missing())).toBe(false);
    }
  });

  test("an import with --dry-run only checks its file", async () => {
    const { status, stdout, stderr } = await run("orders import - --dry-run");
    const counted = "Would import 1 order: 1 new, 0 replaced, 0 shipped, 0 unchanged.\n";
    expect([status, stdout]).toEqual([0, counted]);
    expect(stderr).toContain("There is no store yet");
    expect(existsSync(missing())).toBe(false);
  });

  test.each(["keys create --plan free --name A", "orders import -"])(
    "%s makes a store and says so",
    async (line) => {
      const { status, stderr } = await run(line);
      expect(status).toBe(0);
      expect(stderr).toMatch(new RegExp(`^Made a new store in ${missing()}\\.$`, "m"));
      for (const read of ["keys list --json", "orders export"]) {
        expect((await run(read)).status).toBe(0);
      }
      // A `-wal` file would remain if a command had not closed its database.
      expect(filesOf(missing(), "-wal")).toEqual([]);
    },
  );
});
