import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openLocalStore } from "../../src/operator/database/local.ts";
import { loadSampleStore } from "../../src/operator/start/sample-store.ts";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { SERVICE, serveWorker } from "../process/worker-server.ts";
import { readSamples } from "./samples.ts";

const run = promisify(execFile);

const ROOT = process.cwd();

const WRONG_PROGRAM = `import { createClient } from "store-orders-client";
const client = createClient({ baseUrl: "http://localhost", apiKey: "sord_test" });
for await (const order of client.listOrders()) {
  const id: number = order.id;
  console.log(id);
}
`;

/** Strict compiler options, which check the type declarations of libraries too. */
const COMPILER_OPTIONS = {
  target: "es2022",
  strict: true,
  skipLibCheck: false,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  allowJs: true,
  checkJs: true,
  types: ["node"],
};

const NODE_OPTIONS = { module: "nodenext", rootDir: "src", outDir: "out" };
const BUNDLER_OPTIONS = { module: "preserve", moduleResolution: "bundler", noEmit: true };

/** The URL of the service in the samples of the documents. */
const DOCUMENTED_URL = "http://localhost:8787";

const samples = readSamples();
const store = new StoreFolder();
let service: Server;
let key: string;
let folder: string;
let compilerErrors: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "store-orders-package-"));
  key = await createSampleStore();
  await store.ordersJson(["export", join(folder, "orders.ndjson")]);
  service = await serveWorker(SERVICE, store.path);

  const [pack, install, ...others] = await installationLines();
  expect(others).toEqual([]);
  await run("sh", ["-c", `${pack} --silent --pack-destination ${folder}`]);
  const manifest = { name: "fresh", private: true, type: "module" };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  const types = `@types/node@${await typesVersion()}`;
  const flags = "--prefer-offline --no-audit --no-fund";
  await run("sh", ["-c", `${install} ${types} ${flags}`], { cwd: folder });

  await mkdir(join(folder, "src"));
  for (const { file, code } of samples) {
    await writeFile(join(folder, "src", file), code.replaceAll(DOCUMENTED_URL, service.url));
  }
  compilerErrors = await compile(NODE_OPTIONS);
}, 120_000);

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  store.remove();
  await rm(folder, { recursive: true, force: true });
});

test("the package contains only the client, its licence and its documentation", async () => {
  const installed = join(folder, "node_modules/store-orders-client");
  expect((await readdir(installed)).toSorted()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "dist",
    "package.json",
  ]);
  const modules = (await readdir("src/client")).filter((name) => name.endsWith(".ts"));
  expect((await readdir(join(installed, "dist"))).toSorted()).toEqual(
    modules.flatMap((name) => [name.replace(/ts$/, "d.ts"), name.replace(/ts$/, "js")]).toSorted(),
  );
  expect(await readFile(join(installed, "LICENSE"), "utf8")).toBe(
    await readFile("LICENSE", "utf8"),
  );
  const readme = await readFile(join(installed, "README.md"), "utf8");
  for (const [, link = ""] of readme.matchAll(/\]\(([^)]+)\)|^\[\w+\]: (\S+)/gm)) {
    expect(existsSync(join(installed, link))).toBe(true);
  }
  expect(await readFile(join(installed, "package.json"), "utf8")).not.toContain(".example");
  // None of the Worker's dependencies is installed with the package.
  expect((await readdir(join(folder, "node_modules"))).toSorted()).toEqual([
    ".package-lock.json",
    "@streamparser",
    "@types",
    "store-orders-client",
    "structured-headers",
    "undici-types",
  ]);
});

test("a fresh project with every sample of the documents type-checks under --strict", async () => {
  expect(samples.map(({ title }) => title)).toContain("src/client/README.md, sample 1");
  expect(compilerErrors).toBe("");
  // The compiler really checks the types: it reports the type error in a wrong program, and no
  // other error.
  await writeFile(join(folder, "src/wrong.ts"), WRONG_PROGRAM);
  expect(await compile(BUNDLER_OPTIONS)).toMatch(
    /^\S*wrong\.ts\(4.*TS2322.*'bigint'.*'number'\.\n$/,
  );
  await rm(join(folder, "src/wrong.ts"));
});

test.each([
  ["the pinned Node", process.execPath],
  ["this machine's Node", "node"],
])("every sample prints what its comments say on %s", async (_, node) => {
  // Places the orders again that the samples on the other Node have cancelled.
  await store.ordersJson(["import", join(folder, "orders.ndjson")]);
  // Without the folders that npm adds to PATH, `node` is this machine's Node.
  const path = (process.env["PATH"] ?? "").split(delimiter);
  const machines = path.filter((entry) => !entry.includes("node_modules")).join(delimiter);
  const env = { ...process.env, PATH: machines, STORE_KEY: key };
  for (const { title, file, promises } of samples) {
    const program = join(folder, "out", file.replace(/ts$/, "js"));
    const { stdout, stderr } = await run(node, [program], { cwd: folder, env });
    expect(stderr, title).toBe("");
    for (const promise of promises) expect(stdout, title).toMatch(promise);
  }
});

/**
 * Creates the store that a first `npm start` creates. The samples use the orders of this store.
 *
 * @returns an API key.
 */
async function createSampleStore(): Promise<string> {
  await store.make();
  await using databases = await openLocalStore(store.path);
  const keys = await loadSampleStore(databases, "test", new Date());
  return keys.find(({ plan }) => plan === "free")?.secret ?? "";
}

/** Compiles the project in `folder` and returns the compiler's errors as text. */
async function compile(options: object): Promise<string> {
  const config = { compilerOptions: { ...COMPILER_OPTIONS, ...options }, include: ["src"] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  try {
    await run(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder, "--pretty", "false"]);
    return "";
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

/** Returns the commands in the client's README that build and install the package. */
async function installationLines(): Promise<string[]> {
  const text = await readFile("src/client/README.md", "utf8");
  return (/^```sh\n([^]*?)\n```$/m.exec(text)?.[1] ?? "").split("\n");
}

async function typesVersion(): Promise<string> {
  const manifest: { devDependencies: Record<string, string> } = JSON.parse(
    await readFile(join(ROOT, "package.json"), "utf8"),
  );
  return manifest.devDependencies["@types/node"] ?? "";
}
