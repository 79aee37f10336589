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

/**
 * A program that uses the client's npm package: it makes each kind of call and handles errors by
 * their code.
 */
const PROGRAM = `
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type CancelResult, createClient, isStoreOrdersError, type Order } from "store-orders-client";

const server = createServer((request, response) => {
  if (request.method === "GET") {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end('[{"id":9223372036854775807,"petId":9007199254740993}]');
  } else if (request.url?.endsWith("/1")) {
    response.writeHead(204).end();
  } else {
    response.writeHead(404, { "Content-Type": "application/json" });
    response.end('{"code":"order_not_found","message":"No such order.","status":404}');
  }
}).listen(0, "127.0.0.1", async () => {
  const { port } = server.address() as AddressInfo;
  const client = createClient({ baseUrl: \`http://127.0.0.1:\${port}\`, apiKey: "sord_test" });
  const first: Order[] = await client.listOrders({ signal: AbortSignal.timeout(10_000) }).all();
  for await (const { id, petId } of client.listOrders()) console.log(id + 0n, petId);
  console.log(first.length, await client.cancelOrder(1n));
  const results: CancelResult[] = await client.cancelOrders([1n, "2"], {
    onProgress: ({ done, total, etaSeconds }) => console.log(done, total, etaSeconds >= 0),
  });
  console.log(results.map(({ outcome }) => outcome).join());
  try {
    await client.cancelOrder(2);
  } catch (error) {
    if (!isStoreOrdersError(error)) throw error;
    switch (error.code) {
      case "order_not_found":
        console.log(error.status, error.message);
        break;
      case "batch_interrupted":
        console.log(error.unsettledIds satisfies readonly bigint[]);
        break;
      case "broken_list":
        console.log(error.receivedCount.toFixed());
    }
  }
  server.close();
});
`;

const EXPECTED = [
  "9223372036854775807n 9007199254740993n",
  "1 cancelled",
  "1 2 true",
  "2 2 true",
  "cancelled,not_found",
  "404 No such order.",
  "",
].join("\n");

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
  await writeFile(join(folder, "src/program.ts"), PROGRAM);
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

test("a fresh project runs on this machine's Node and on the pinned one", async () => {
  const program = join(folder, "out/program.js");
  const pinned = await run(process.execPath, [program], { cwd: folder });
  expect(pinned.stdout).toBe(EXPECTED);
  // Makes `node` run this machine's Node: removes the folders that npm adds to PATH, one of which
  // contains the pinned Node.
  const path = (process.env["PATH"] ?? "").split(delimiter);
  const machines = path.filter((entry) => !entry.includes("node_modules")).join(delimiter);
  const env = { ...process.env, PATH: machines };
  const own = await run("node", [program], { cwd: folder, env });
  expect(own.stdout).toBe(EXPECTED);
});

test.each(samples)("$title prints what its comments say", async ({ file, promises }) => {
  const env = { ...process.env, STORE_KEY: key };
  const program = join(folder, "out", file.replace(/ts$/, "js"));
  const { stdout, stderr } = await run(process.execPath, [program], { cwd: folder, env });
  expect(stderr).toBe("");
  for (const promise of promises) expect(stdout).toMatch(promise);
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
