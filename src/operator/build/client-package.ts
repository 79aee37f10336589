import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFile, mkdtempDisposable, readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import manifest from "../../client/package.json" with { type: "json" };
import { writeFolder } from "../replace-file.ts";
import { PROJECT_ROOT } from "../wrangler.ts";

const run = promisify(execFile);

const CLIENT = join(PROJECT_ROOT, "src", "client");
const TYPESCRIPT = createRequire(import.meta.url).resolve("typescript/package.json");

/** The name of the client's package as a file of the service, which `npm install` takes by its URL. */
export const CLIENT_PACKAGE = `${manifest.name}-${manifest.version}.tgz`;

/** Packs the client for npm. `cache` is a folder that keeps the package until a source changes. */
export async function packClient(cache: string): Promise<Uint8Array> {
  const files = await readdir(CLIENT, { withFileTypes: true });
  const names = files.filter((file) => file.isFile()).map(({ name }) => name);
  const sources = [...names.toSorted().map((name) => join(CLIENT, name)), TYPESCRIPT];
  const contents = await Promise.all(sources.map((source) => readFile(source)));
  const digest = createHash("sha256").update(Buffer.concat(contents)).digest("hex");
  const kept = await readFile(join(cache, `${digest}.tgz`)).catch(() => null);
  if (kept !== null) return kept;

  // Not in the client's own folder, because several builds may run at the same time.
  await using folder = await mkdtempDisposable(join(tmpdir(), "store-orders-client-"));
  const { path } = folder;
  const tsc = join(TYPESCRIPT, "../bin/tsc");
  await run(process.execPath, [tsc, "-p", CLIENT, "--outDir", join(path, "dist")]);
  for (const name of names.filter((one) => !/^tsconfig|\.ts$/.test(one))) {
    await copyFile(join(CLIENT, name), join(path, name));
  }
  // Without the settings of an npm that runs this build, such as its folder.
  const own = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  await run("npm", ["pack", path, "--pack-destination", path, "--ignore-scripts"], {
    env: { ...Object.fromEntries(own), npm_config_update_notifier: "false" },
    shell: process.platform === "win32",
  });
  const packed = await readFile(join(path, CLIENT_PACKAGE));
  await writeFolder(cache, new Map([[`${digest}.tgz`, packed]]));
  return packed;
}
