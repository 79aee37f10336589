import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const run = promisify(execFile);

const ROOT = process.cwd();

/** A caller's program: each kind of call, and errors by their code. */
const PROGRAM = `
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type CancelResult, createClient, isStoreOrdersError, type Order } from "store-orders/client";

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

/** Strict options that check the libraries as well. */
const COMPILER_OPTIONS = {
  target: "es2022",
  strict: true,
  skipLibCheck: false,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  types: ["node"],
};

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "store-orders-package-"));
  const { stdout } = await run("npm", ["pack", "--silent", "--pack-destination", folder]);
  const manifest = { name: "fresh", private: true, type: "module" };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  const archive = join(folder, stdout.trim().split("\n").at(-1) ?? "");
  const flags = ["--prefer-offline", "--no-audit", "--no-fund"];
  await run("npm", ["install", ...flags, archive, `@types/node@${await typesVersion()}`], {
    cwd: folder,
  });
  await mkdir(join(folder, "src"));
  await writeFile(join(folder, "src/program.ts"), PROGRAM);
}, 120_000);

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

test("the package holds the client, its licence and its documentation, and nothing else", async () => {
  const installed = join(folder, "node_modules/store-orders");
  expect((await readdir(installed)).toSorted()).toEqual([
    "LICENSE",
    "README.md",
    "dist",
    "package.json",
  ]);
  expect((await readdir(join(installed, "dist"))).toSorted()).toEqual(["client", "worker"]);
  expect(await readdir(join(installed, "dist/worker"))).toEqual(["orders"]);
  expect(await readdir(join(installed, "dist/worker/orders"))).toEqual(["int64.d.ts", "int64.js"]);
  // The package brings none of the Worker's own libraries.
  expect((await readdir(join(folder, "node_modules"))).toSorted()).toEqual([
    ".package-lock.json",
    "@streamparser",
    "@types",
    "store-orders",
    "structured-headers",
    "undici-types",
  ]);
});

test.each([
  ["nodenext", "nodenext"],
  ["preserve", "bundler"],
])("a fresh project type-checks with module %s", async (module, moduleResolution) => {
  const config = {
    compilerOptions: { ...COMPILER_OPTIONS, module, moduleResolution, noEmit: true },
    include: ["src"],
  };
  expect(await compile(config)).toBe("");
  // The compiler does check the types: it finds a wrong use.
  await writeFile(join(folder, "src/wrong.ts"), wrongProgram());
  expect(await compile(config)).toMatch(/wrong\.ts.*TS2322.*'bigint'.*'number'/);
  await rm(join(folder, "src/wrong.ts"));
});

test("a fresh project runs on this machine's Node and on the pinned one", async () => {
  await compile({
    compilerOptions: {
      ...COMPILER_OPTIONS,
      module: "nodenext",
      rootDir: "src",
      outDir: "out",
    },
    include: ["src"],
  });
  const program = join(folder, "out/program.js");
  const pinned = await run(process.execPath, [program], { cwd: folder });
  expect(pinned.stdout).toBe(EXPECTED);
  // The machine's Node: PATH without the folders that npm adds.
  const path = (process.env["PATH"] ?? "").split(delimiter);
  const machines = path.filter((entry) => !entry.includes("node_modules")).join(delimiter);
  const env = { ...process.env, PATH: machines };
  const own = await run("node", [program], { cwd: folder, env });
  expect(own.stdout).toBe(EXPECTED);
});

function wrongProgram(): string {
  return `import { createClient } from "store-orders/client";
const client = createClient({ baseUrl: "http://localhost", apiKey: "sord_test" });
for await (const order of client.listOrders()) {
  const id: number = order.id;
  console.log(id);
}
`;
}

/** Compiles the project and returns the errors of the compiler. */
async function compile(config: object): Promise<string> {
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  try {
    await run(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder, "--pretty", "false"]);
    return "";
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

async function typesVersion(): Promise<string> {
  const manifest: { devDependencies: Record<string, string> } = JSON.parse(
    await readFile(join(ROOT, "package.json"), "utf8"),
  );
  return manifest.devDependencies["@types/node"] ?? "";
}
