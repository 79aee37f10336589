import { globSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, expect, it } from "vitest";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { startProgram } from "../../../src/operator/start/program.ts";
import { runWrangler } from "../../../src/operator/wrangler.ts";
import { readMigrations } from "../../support/migration-files.ts";
import { LISTED, VERSIONS } from "../../worker/db/versions.ts";
import { runInProcess } from "../in-process.ts";
import { StoreFolder } from "../store-folder.ts";

let store = new StoreFolder();
const project = new StoreFolder();
afterEach(() => {
  store.remove();
  store = new StoreFolder();
});
afterAll(() => project.remove());

/**
 * Writes a wrangler.toml with a database for each binding. The binding is also the name of the
 * migrations folder.
 */
function writeProject(...bindings: string[]): void {
  const databases = bindings.map(
    (binding) => `[[d1_databases]]\nbinding = "${binding}"\nmigrations_dir = "${binding}"\n`,
  );
  writeFileSync(
    join(project.path, "wrangler.toml"),
    `name = "store-orders"\n${databases.join("")}`,
  );
}

/** Returns the SQLite files of the store's databases. */
function databaseFiles(): string[] {
  return globSync(`${store.path}/v3/d1/*/????????????????*.sqlite`);
}

/** Runs `wrangler d1` on the store, as an earlier version of the project did. */
async function asEarlier(...args: string[]): Promise<void> {
  const target = ["--local", "--persist-to", store.path];
  await runWrangler(["d1", ...args, ...target, "--config", join(project.path, "wrangler.toml")]);
}

it("the first commands migrate a local store of the first version and keep its data", async () => {
  writeProject(...Object.values(BINDINGS));
  for (const name of DATABASE_NAMES) {
    const binding = BINDINGS[name];
    const [first] = readMigrations(name);
    mkdirSync(join(project.path, binding));
    writeFileSync(join(project.path, binding, first?.name ?? ""), first?.sql ?? "");
    const others = databaseFiles();
    await asEarlier("migrations", "apply", binding);
    const [file = ""] = databaseFiles().filter((candidate) => !others.includes(candidate));
    using sqlite = new DatabaseSync(file);
    sqlite.exec(VERSIONS[name][first?.name ?? ""]?.data ?? "");
  }
  const { status, stdout, stderr } = await store.orders(["export"]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const withoutStatus = stdout.replaceAll(/,"status":"\w+"/g, "");
  expect(withoutStatus.trim().split("\n")).toEqual(LISTED);
  expect(await store.keysJson("list")).toMatchObject([
    { id: "key_free", name: "O'Brien ☕", perMinute: 60 },
    { id: "key_pro", revokedAt: "2026-11-18T11:06:40.999Z" },
    { id: "key_business", expiresAt: "2026-11-18T11:06:40.500Z" },
    { id: "key_enterprise", perMinute: 5_000, perDay: 500_000 },
  ]);
});

it("a local store with orders and keys in one database is refused and not changed", async () => {
  writeProject("DB");
  await asEarlier("execute", "DB", "--yes", "--command=CREATE TABLE orders (id INTEGER)");
  const databases = () => readdirSync(join(store.path, "v3", "d1", "miniflare-D1DatabaseObject"));
  const before = databases();
  const start = runInProcess(startProgram(), ["--port", "18787", "--persist-to", store.path]);
  for (const refused of [store.orders(["export"]), store.keys("list"), start]) {
    const { status, stdout, stderr } = await refused;
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain(`error: the store in ${store.path} was made by an earlier version`);
    expect(stderr).toContain("Nothing was changed. Export its orders with that version");
  }
  expect(databases()).toEqual(before);
});
