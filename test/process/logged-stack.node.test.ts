import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gzipSync } from "node:zlib";
import { beforeAll, expect, test, vi } from "vitest";
import { databaseFile } from "../../src/operator/database/local-store.ts";
import { QUIET_WRANGLER } from "../../src/operator/wrangler.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { PATIENCE } from "../support/patience.ts";
import { startServer } from "../support/server.ts";
import { createKeys } from "./store-content.ts";

/** The documented commands, which build the deployed Worker and look up `12, 3456`. */
const DOCUMENT = readFileSync("docs/operating.md", "utf8");
const [, build = "", lookUp = ""] =
  /```sh\n(.*--outdir \/tmp\/map)\n(.*\n)```/.exec(DOCUMENT) ?? [];

const store = new StoreFolder();
const { key } = await createKeys(store.path, { key: "free" });
const outdir = join(store.path, "map");

const sh = (line: string) => {
  const command = line.replace("/tmp/map", outdir);
  const env = { ...process.env, ...QUIET_WRANGLER };
  return execFileSync("sh", ["-c", command], { encoding: "utf8", env });
};

beforeAll(() => void sh(build));

test("a deployed bundle has at most 75 KiB", () => {
  const { length } = gzipSync(readFileSync(join(outdir, "index.js")), { level: 9 });
  expect(length).toBeLessThanOrEqual(75 * 1_024);
});

test("the stack that a minified Worker has logged leads to our lines", async () => {
  using sqlite = new DatabaseSync(databaseFile(store.path, "orders"));
  sqlite.exec("ALTER TABLE order_list RENAME TO lost");
  const lines: string[] = [];
  await using server = await startServer(join(outdir, "index.js"), {
    store: store.path,
    onLog: (line) => void lines.push(line),
  });
  expect((await server.request(key)).status).toBe(500);
  const logged = () => lines.find((line) => line.includes('"internal_error"'));
  const { stack } = JSON.parse(await vi.waitUntil(logged, PATIENCE));
  const frames = [...stack.matchAll(/\bindex\.js:(\d+):(\d+)/g)];
  expect(frames.length).toBeGreaterThan(1);
  const origins = frames.map(([, line, column]) => {
    const printed = sh(lookUp.replace("12, 3456", `${line}, ${column}`));
    const [, file = "", at] = /fileName: '(.*)',\s+lineNumber: (\d+)/.exec(printed) ?? [];
    return { file: resolve(outdir, file), line: Number(at) };
  });
  for (const { file } of origins) expect(file).toContain(resolve("src/worker"));
  const { file, line } = origins[0]!;
  expect(readFileSync(file, "utf8").split("\n")[line - 1]).toMatch(/await .*\.all/);
});
