import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { runWrangler } from "../../../src/operator/wrangler.ts";
import { LISTED, VERSIONS } from "../../worker/db/versions.ts";
import { StoreFolder } from "../store-folder.ts";

const store = new StoreFolder();
const project = new StoreFolder();
afterAll(() => [store, project].forEach((folder) => folder.remove()));

/** Runs wrangler on the store as the first version of the project did, with only one migration. */
async function asFirstVersion(...args: string[]): Promise<void> {
  const target = ["--local", "--persist-to", store.path];
  await runWrangler(["d1", ...args, ...target, "--config", join(project.path, "wrangler.toml")]);
}

it("the first command migrates a local store of the first version and keeps its data", async () => {
  const [first = "", version] = Object.entries(VERSIONS)[0] ?? [];
  mkdirSync(join(project.path, "migrations"));
  copyFileSync(join("migrations", first), join(project.path, "migrations", first));
  const toml = 'name = "store-orders"\n[[d1_databases]]\nbinding = "DB"\n';
  writeFileSync(join(project.path, "wrangler.toml"), toml);
  writeFileSync(join(project.path, "data.sql"), version?.data ?? "");
  await asFirstVersion("migrations", "apply", "DB");
  await asFirstVersion("execute", "DB", "--yes", `--file=${join(project.path, "data.sql")}`);

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
