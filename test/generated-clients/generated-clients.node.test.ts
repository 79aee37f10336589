import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { beforeAll, expect, test } from "vitest";
import { documentedClient } from "../../src/operator/build/site.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import type { Server } from "../support/server.ts";
import { AMPLE, createKeys } from "../process/store-content.ts";
import { ServedStore, SERVICE } from "../process/worker-server.ts";

const run = promisify(execFile);

/** A folder in the project, so that imports of npm packages resolve to the project's packages. */
const FOLDER = join(PROJECT_ROOT, "dist", "generated-client");
const DOCUMENT = join(PROJECT_ROOT, "dist", "site", "openapi.json");
const ADDRESS = "http://localhost:8787";

const COMPILER_OPTIONS = {
  target: "es2022",
  lib: ["es2022", "dom", "dom.iterable"],
  types: ["node"],
  strict: true,
  skipLibCheck: true,
  noEmit: true,
};

/** `JSON.parse` rounds both ids to the same number. */
const IDS = [2n ** 53n, 2n ** 53n + 1n] as const;
const SHIPPED_ID = 1004n;

/** The exports of `orders.ts` in docs/api.md. */
interface GeneratedClient {
  readonly listOrders: () => Promise<readonly { readonly id: bigint }[]>;
  readonly cancelOrder: (orderId: bigint) => Promise<void>;
}

const store = new ServedStore();
let server: Server;
let key: string;
/** The generated client, bundled. */
let script: string;

beforeAll(async () => {
  ({ key } = await createKeys(store.path, { key: AMPLE }));
  const lines = [...IDS.map((id) => `{"id":${id}}`), `{"id":${SHIPPED_ID},"status":"shipped"}`];
  await store.ordersJson(["import", "-"], lines.join("\n"));
  [server] = await Promise.all([store.serve(SERVICE), generate()]);
});

/** Extracts the client's file from docs/api.md, generates the client, and bundles it. */
async function generate(): Promise<void> {
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  const [shell, ...files] = documentedClient();
  for (const { code } of files) {
    const [, file = "", content = ""] = /^\/\/ (\S+)\n([^]*)$/.exec(code) ?? [];
    await writeFile(join(FOLDER, file), content);
  }
  const line = shell?.code.split("\n").at(-1)?.replace(`${ADDRESS}/openapi.json`, DOCUMENT);
  const [npx, program = "", ...args] = line?.split(" ") ?? [];
  expect(npx).toBe("npx");
  // Runs the program without npx, which would take a second longer.
  const commands = join(import.meta.dirname, "node_modules", ".bin");
  await run(join(commands, program), args, { cwd: FOLDER });
  const { outputFiles } = await build({
    entryPoints: [join(FOLDER, "orders.ts")],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    logLevel: "error",
  });
  script = outputFiles[0]!.text;
}

/** Imports the bundled client, which then sends this API key. */
function load(secret: string): Promise<GeneratedClient> {
  const own = script
    .replace(ADDRESS, server.url)
    .replace('process.env["STORE_KEY"]', `"${secret}"`);
  return import(`data:text/javascript;base64,${Buffer.from(own).toString("base64")}`);
}

test.each(["preserve", "nodenext"])("compiles under --strict, as module %s", async (module) => {
  const config = { compilerOptions: { ...COMPILER_OPTIONS, module }, include: ["orders.ts"] };
  await writeFile(join(FOLDER, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(PROJECT_ROOT, "node_modules", ".bin", "tsc");
  const outcome = await run(compiler, ["-p", FOLDER, "--pretty", "false"]).catch((error) => error);
  expect(outcome.stdout).toBe("");
});

test("runs in Node without a bundler", async () => {
  const orders = await readFile(join(FOLDER, "orders.ts"), "utf8");
  await writeFile(join(FOLDER, "served.ts"), orders.replace(ADDRESS, server.url));
  const code = "console.log(await (await import('./served.ts')).listOrders())";
  const env = { ...process.env, STORE_KEY: key };
  const options = { cwd: FOLDER, env };
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", code], options);
  for (const id of IDS) expect(stdout).toContain(`id: ${id}n`);
});

test("keeps every digit of ids, cancels one order, and throws the code of an error", async () => {
  const [{ listOrders, cancelOrder }, stranger] = await Promise.all([load(key), load("")]);
  const ids = async () => (await listOrders()).map(({ id }) => id);
  expect(await ids()).toEqual([SHIPPED_ID, ...IDS]);
  await cancelOrder(IDS[1]);
  expect(await ids()).toEqual([SHIPPED_ID, IDS[0]]);
  // Two error codes are enough, because the generated client treats all codes alike.
  await expect(cancelOrder(SHIPPED_ID)).rejects.toThrow(/^order_already_shipped: /);
  await expect(stranger.listOrders()).rejects.toThrow(/^unauthorized: /);
});
