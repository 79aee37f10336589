import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type SQL, sql } from "drizzle-orm";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { databaseFile, makeOwnFolder } from "../../../src/operator/database/local-store.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import { DATABASE_NAMES } from "../../../src/schema/databases.ts";
import { testFolder } from "../../support/test-folder.ts";
import { failure, programOf, runInProcess } from "../commands.ts";
import { beforeStatements, StoreFolder } from "../store-folder.ts";

let store: StoreFolder;
beforeEach(() => void (store = new StoreFolder()));

test("a statement that D1 would refuse fails here too, and the transaction after it succeeds", async () => {
  using database = await openLocalDatabase(store.path, "orders");
  const list = (length: number, of: SQL) => sql.join(Array(length).fill(of), sql`,`);
  const insertion = sql`INSERT INTO orders (id) VALUES (1)`;
  const refused = /UNIQUE|too (?:big|many|large)/;
  for (const failing of [
    // `OR ROLLBACK` simulates errors after which SQLite itself rolls back, such as a full disk.
    ...["OR ABORT", "OR ROLLBACK"].map((or) => sql.raw(`INSERT ${or} INTO orders (id) VALUES (1)`)),
    sql`SELECT ${"x".repeat(2_000_001)}`,
    sql.raw(`SELECT 1 -- ${"x".repeat(100_000)}`),
    sql`SELECT max(${list(33, sql`1`)})`,
    sql`SELECT ${list(101, sql`${"x"}`)}`,
  ]) {
    await expect(database.transaction([insertion, failing])).rejects.toThrow(refused);
  }
  await database.transaction([sql`INSERT INTO orders (id) VALUES (2)`]);
  expect(await database.orm.all(sql`SELECT id FROM orders`)).toEqual([[2]]);
});

test.each(["DROP TABLE d1_migrations", "ALTER TABLE order_bulk_change ADD COLUMN changed INTEGER"])(
  "a store to which migrations do not fit (%s) is refused, named and not changed",
  async (statement) => {
    await store.make();
    using sqlite = new DatabaseSync(databaseFile(store.path, "orders"));
    sqlite.exec(statement);
    const tables = () => sqlite.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all();
    const before = tables();
    const refused = failure(`error: the store in ${store.path} could not be opened: `);
    expect(await store.orders(["import", "-"], '{"id":1}')).toEqual(refused);
    expect(tables()).toEqual(before);
    expect(sqlite.prepare("SELECT * FROM orders").all()).toEqual([]);
  },
);

test.each([
  ["keys create --plan free --name A", "thesis.txt"],
  ["start", "thesis.txt"],
  // The local databases of another project are no store, and no place for one.
  ["orders import -", "v3/d1/objects/theirs.sqlite"],
])("%s refuses a folder that holds %s, and leaves it as it is", async (line, file) => {
  fs.mkdirSync(join(missing(), dirname(file)), { recursive: true });
  fs.writeFileSync(join(missing(), file), "unique");
  const before = fs.readdirSync(missing(), { recursive: true });
  const refused = failure(`${missing()} holds "${file.split("/")[0]}" and is no store`);
  expect(await run(line)).toEqual(refused);
  expect(fs.readdirSync(missing(), { recursive: true })).toEqual(before);
});

test("npm start keeps its files in a folder of its own, and refuses one that it did not make", async () => {
  await store.make();
  const own = join(store.path, "npm-start");
  const [site, note] = [join(own, "site"), join(own, "README.txt")];
  fs.mkdirSync(own);
  fs.writeFileSync(site, "mine");
  expect(() => makeOwnFolder(store.path)).toThrow(`${own} holds files that npm start did not`);
  expect(fs.readdirSync(own)).toEqual(["site"]);
  fs.rmSync(site);
  expect(makeOwnFolder(store.path)).toBe(own);
  fs.writeFileSync(site, "written by npm start");
  fs.appendFileSync(note, "\nA note.");
  expect(makeOwnFolder(store.path)).toBe(own);
});

test("on a disk that cannot be written to, list and export work, and a change is refused", async () => {
  await store.ordersJson(["import", "-"], '{"id":7}');
  const { id } = await store.keysJson("create", "--plan", "free", "--name", "Zoo");
  // The second order is in a `-wal` file until the end.
  using running = new DatabaseSync(databaseFile(store.path, "orders"));
  running.exec("INSERT INTO orders (id) VALUES (8)");
  const temporary = testFolder();
  vi.stubEnv("TMPDIR", temporary);
  onTestFinished(() => void vi.unstubAllEnvs());
  using _ = beforeStatements((_query, sqlite) => {
    if (sqlite.location()?.startsWith(store.path)) throw new Error("unable to open database file");
  });
  const stdout = '{"id":7,"status":"pending"}\n{"id":8,"status":"pending"}\n';
  expect(await store.orders(["export"])).toEqual({ status: 0, stdout, stderr: "" });
  expect(await store.keysJson("list")).toMatchObject([{ id }]);
  const reason = "was not changed: attempt to write a readonly database\n";
  expect(await store.keys("revoke", id)).toEqual(failure(`the store in ${store.path} ${reason}`));
  expect(fs.readdirSync(temporary)).toEqual([]);
});

test("a new database is opened although another process locks it", async () => {
  const file = databaseFile(store.path, "keys");
  fs.mkdirSync(dirname(file), { recursive: true });
  const lock = new DatabaseSync(file);
  lock.exec("BEGIN EXCLUSIVE");
  setTimeout(() => lock.close(), 100);
  using database = await openLocalDatabase(store.path, "keys");
  expect(await database.orm.all(sql`SELECT * FROM api_keys`)).toEqual([]);
});

test("commands succeed although another process locks the databases again and again", async () => {
  await store.make();
  const databases = DATABASE_NAMES.map((name) => new DatabaseSync(databaseFile(store.path, name)));
  const lock = "BEGIN IMMEDIATE; UPDATE d1_migrations SET applied_at = datetime('now')";
  const lockOrCommit = () => {
    for (const sqlite of databases) sqlite.exec(sqlite.isTransaction ? "COMMIT" : lock);
  };
  lockOrCommit();
  const writer = setInterval(lockOrCommit, 20);
  await Promise.all([
    store.ordersJson(["import", "-"], '{"id":1}\n{"id":2}'),
    ...["one", "two"].map((name) => store.keysJson("create", "--plan", "free", "--name", name)),
  ]);
  clearInterval(writer);
  for (const sqlite of databases) sqlite.close();
  expect((await store.orders(["export"])).stdout.match(/\n/g)).toHaveLength(2);
  expect(await store.keysJson("list")).toHaveLength(2);
});

test("a command whose migrations another command applies meanwhile leaves them", async () => {
  const migrations = readMigrations("keys");
  using _ = beforeStatements((query, sqlite) => {
    if (!query.startsWith("INSERT INTO d1_migrations")) return;
    for (const { name, sql: text } of migrations) {
      sqlite.exec(`${text}; INSERT INTO d1_migrations (name) VALUES ('${name}')`);
    }
  });
  using database = await openLocalDatabase(store.path, "keys");
  const applied = await database.orm.all(sql`SELECT name FROM d1_migrations`);
  expect(applied).toEqual(migrations.map(({ name }) => [name]));
});

/** A folder without a store. */
const missing = () => join(store.path, "strore");
async function run(line: string) {
  const [name = "", ...args] = line.split(" ");
  return runInProcess(await programOf(name), [...args, "--persist-to", missing()], '{"id":1}');
}

test("without a store, commands but import and create are refused and make nothing", async () => {
  const keys = "list,show A,update A --name B,rotate A,revoke A,reset A,audit,usage";
  const others = ["orders export", "orders export /dev/null --one-moment", "verify --read-only"];
  const advice = "name the folder of a store with --persist-to, or make one with npm start\n";
  const refused = `error: there is no store in ${missing()}, so nothing was done: ${advice}`;
  for (const line of [...keys.split(",").map((words) => `keys ${words}`), ...others]) {
    expect(await run(line), line).toEqual(failure(refused));
    expect(fs.existsSync(missing())).toBe(false);
  }
});

test.each(["keys create --plan free --name A", "orders import -"])(
  "without a store, %s makes one and says so",
  async (line) => {
    // Folders that an interrupted command has left hold nothing.
    fs.mkdirSync(join(missing(), "v3/d1"), { recursive: true });
    fs.cpSync("README.md", join(missing(), "npm-start/README.txt"));
    const made = new RegExp(`^Made a new store in ${missing()}\\.$`, "m");
    expect(await run(line)).toMatchObject({ status: 0, stderr: expect.stringMatching(made) });
    for (const read of ["keys list", "orders export"]) {
      expect(await run(read)).toMatchObject({ status: 0 });
    }
    // A `-wal` file would remain if a command had not closed its database.
    expect(fs.globSync(`${missing()}/**/*.sqlite-wal`)).toEqual([]);
  },
);
