import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { openLocalStore } from "../../src/operator/database/local.ts";
import { loadSampleStore } from "../../src/operator/start/sample-store.ts";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { SERVICE, serveWorker } from "../process/worker-server.ts";

const run = promisify(execFile);

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

/** A sample of TypeScript or JavaScript in a document. */
interface Sample {
  /** The path of the document and the number of the sample in this document. */
  readonly title: string;
  readonly file: string;
  readonly code: string;
  /**
   * Patterns for the lines that the sample prints, from the comments after `console.log`. In a
   * comment, `…` stands for any text.
   */
  readonly promises: readonly RegExp[];
}

const FENCED = /^```(?<language>ts|typescript|js|javascript)\b.*\n(?<code>[^]*?)^```$/gm;

/**
 * Matches the first line of a file of a generated client. The tests in `test/generated-clients`
 * compile and run these files.
 */
const GENERATED_CLIENT_FILE = /^\/\/ [\w.-]+\.ts\n/;

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
  // The samples use the orders and keys that a first `npm start` creates.
  await store.make();
  await using databases = await openLocalStore(store.path);
  const keys = await loadSampleStore(databases, "test", new Date());
  key = keys.find(({ plan }) => plan === "free")?.secret ?? "";
  await store.ordersJson(["export", join(folder, "orders.ndjson")]);
  service = await serveWorker(SERVICE, store.path);

  // The commands in the client's README that build and install the package.
  const readme = readFileSync("src/client/README.md", "utf8");
  const [pack, install, ...others] = /^```sh\n([^]*?)\n```$/m.exec(readme)?.[1]?.split("\n") ?? [];
  expect(others).toEqual([]);
  await run("sh", ["-c", `${pack} --silent --pack-destination ${folder}`]);
  const manifest = { name: "fresh", private: true, type: "module" };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  const types = `@types/node@${packageJson.devDependencies["@types/node"]}`;
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
  for (const [, link = ""] of readme.matchAll(/\]\(([^)]+)\)/g)) {
    expect(existsSync(join(installed, link))).toBe(true);
  }
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

/** Compiles the project in `folder` and returns the compiler's errors as text. */
async function compile(options: object): Promise<string> {
  const config = { compilerOptions: { ...COMPILER_OPTIONS, ...options }, include: ["src"] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  try {
    await run(join(process.cwd(), "node_modules/.bin/tsc"), ["-p", folder, "--pretty", "false"]);
    return "";
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

/** Reads the samples in all documents, except the files of generated clients. */
function readSamples(): Sample[] {
  const documents = globSync(["*.md", "docs/*.md", "src/client/*.md"]).toSorted();
  return documents
    .flatMap((document) =>
      [...readFileSync(document, "utf8").matchAll(FENCED)].map(({ groups }, index) => ({
        title: `${document}, sample ${index + 1}`,
        extension: groups?.["language"]?.startsWith("t") ? "ts" : "js",
        code: groups?.["code"] ?? "",
      })),
    )
    .filter(({ code }) => !GENERATED_CLIENT_FILE.test(code))
    .map(({ title, extension, code }, index) => ({
      title,
      file: `sample-${index + 1}.${extension}`,
      code,
      promises: promisesIn(code),
    }));
}

function promisesIn(code: string): RegExp[] {
  return [...code.matchAll(/console\.log\(.*\/\/ (.+)$/gm)].map(([, text = ""]) => {
    const literal = text.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(`^${literal.join(".*")}$`, "m");
  });
}
