import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import packageJson from "../package.json" with { type: "json" };
import { prepareStore } from "../src/operator/start/sample-store.ts";
import type { Server } from "./support/server.ts";
import { ServedStore, SERVICE } from "./process/worker-server.ts";
import { textOf } from "./site/page-text.ts";

const run = promisify(execFile);

/** Strict compiler options, which check the type declarations of libraries too. */
const COMPILER_OPTIONS = {
  target: "es2022",
  module: "nodenext",
  rootDir: "src",
  outDir: "out",
  strict: true,
  skipLibCheck: false,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  allowJs: true,
  checkJs: true,
  types: ["node"],
};

const FENCED = /^```(?<language>ts|typescript|js|javascript)\b.*\n(?<code>[^]*?)^```$/gm;

/**
 * Matches the first line of a file of a generated client. The tests in `test/generated-clients`
 * compile and run these files.
 */
const GENERATED_CLIENT_FILE = /^\/\/ [\w.-]+\.ts\n/;

const DOCUMENTED_URL = "http://localhost:8787";

/** PATH without the folders that npm adds, so that `node` is this machine's Node. */
const PATH = (process.env["PATH"] ?? "")
  .split(delimiter)
  .filter((entry) => !entry.includes("node_modules"))
  .join(delimiter);

const samples = readSamples();
const page = await readFile("dist/site/index.html", "utf8");
const store = new ServedStore();
const folder = join(store.path, "samples");
const keys: Record<string, string> = {};
let service: Server;
let compiler: { readonly stdout: string };

beforeAll(async () => {
  await mkdir(join(folder, "src"), { recursive: true });
  // The samples use the orders and keys that a first `npm start` creates.
  for (const { plan, secret } of await prepareStore(store.path, false)) keys[plan] = secret;
  await store.ordersJson(["export", join(folder, "orders.ndjson")]);
  service = await store.serve(SERVICE);

  // Runs the commands in the client's README that build and install the package.
  const readme = readFileSync("src/client/README.md", "utf8");
  const [pack, install, ...others] = /^```sh\n([^]*?)\n```$/m.exec(readme)?.[1]?.split("\n") ?? [];
  expect(others).toEqual([]);
  await run("sh", ["-c", `${pack} --silent --pack-destination ${folder}`]);
  const manifest = { name: "fresh", private: true, type: "module" };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  const types = `@types/node@${packageJson.devDependencies["@types/node"]}`;
  const flags = "--prefer-offline --no-audit --no-fund";
  await run("sh", ["-c", `${install} ${types} ${flags}`], { cwd: folder });

  const pasted = ["First call", "Cancel an order"].map((label, index) => ({
    file: `pasted-${index + 1}.ts`,
    code: sampleOnPage(label, "TypeScript"),
  }));
  for (const { file, code } of [...samples, ...pasted]) {
    await writeFile(join(folder, "src", file), code.replaceAll(DOCUMENTED_URL, service.url));
  }
  const config = { compilerOptions: COMPILER_OPTIONS, include: ["src"] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  compiler = await run("node_modules/.bin/tsc", ["-p", folder, "--pretty", "false"]).catch(
    (error) => error,
  );
}, 120_000);

test("the package contains only the client, its licence and its documentation", async () => {
  const installed = join(folder, "node_modules/store-orders-client");
  const modules = (await readdir("src/client")).filter((name) => name.endsWith(".ts"));
  const built = modules.flatMap((name) => ["d.ts", "js"].map((end) => name.replace(/ts$/, end)));
  expect((await readdir(join(installed, "dist"))).toSorted()).toEqual(built.toSorted());
  const files = ["CHANGELOG.md", "LICENSE", "README.md", "dist", "package.json"];
  expect((await readdir(installed)).toSorted()).toEqual(files);
  const read = (name: string) => readFile(join(installed, name), "utf8");
  const [readme, manifest] = [await read("README.md"), await read("package.json")];
  expect(await read("LICENSE")).toBe(await readFile("LICENSE", "utf8"));
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

  // README says what callers otherwise find out: there is no CommonJS, and no JSON of a bigint.
  expect(readme).toMatch(/ES\s+module\s+only/);
  expect(JSON.parse(manifest)).toMatchObject({ type: "module" });
  expect(manifest).not.toContain('"require"');
  const [, replacer = ""] = /JSON\.stringify` throws[^]*?`(\([^`]+)`/.exec(readme) ?? [];
  // oxlint-disable-next-line typescript/no-implied-eval -- The code is a constant of this project.
  const written: unknown = new Function(`return JSON.stringify({ id: 2n ** 63n }, ${replacer})`)();
  expect(written).toBe('{"id":"9223372036854775808"}');
});

test("a fresh project with every sample type-checks under --strict", async () => {
  expect(samples.map(({ title }) => title)).toContain("src/client/README.md, sample 1");
  expect(compiler.stdout).toBe("");
});

test.each([
  ["the pinned Node", process.execPath],
  ["this machine's Node", "node"],
])("every sample prints what its comments say on %s", async (_, node) => {
  await placeSampleOrders();
  for (const { title, file, code } of samples) {
    const program = join(folder, "out", file.replace(/ts$/, "js"));
    const { stdout, stderr } = await execute(node, [program]);
    expect(stderr, title).toBe("");
    for (const promise of promisesIn(code)) expect(stdout, title).toMatch(promise);
  }
});

/** The command for a pasted sample of each language, and the file for the sample, if any. */
const PASTED: Readonly<Record<string, { command: string; args?: string[]; file?: string }>> = {
  curl: { command: "sh", args: ["-c"] },
  TypeScript: { command: process.execPath, file: "pasted.ts" },
  JavaScript: { command: process.execPath, file: "pasted.mjs" },
  Python: { command: "python3", file: "pasted.py" },
  Go: { command: "go", args: ["run"], file: "pasted.go" },
};
test("the page has the first call in five languages", () => {
  const languages = page.matchAll(/name="first-language" value="([^"]+)"/g);
  expect([...languages].map(([, language]) => language)).toEqual(Object.keys(PASTED));
});

const runnable = Object.entries(PASTED).filter(([, { command }]) => {
  const paths = [command, ...PATH.split(delimiter).map((entry) => join(entry, command))];
  const isHere = paths.some((path) => existsSync(path));
  if (!isHere) console.error(`\n!!! No ${command} here: its samples on the page are SKIPPED.\n`);
  return isHere;
});

test.each(runnable)(
  "a sample of the page in %s lists every digit, and cancels once",
  async (language, how) => {
    const { command, args = [], file } = how;
    const paste = async (label: string) => {
      const code = sampleOnPage(label, language).replaceAll(DOCUMENTED_URL, service.url);
      if (file !== undefined) await writeFile(join(folder, file), code);
      const outcome = await execute(command, [...args, file ?? code]);
      return { ...outcome, all: outcome.stdout + outcome.stderr };
    };
    const isCurl = language === "curl";
    await placeSampleOrders();
    const { status, stdout, stderr } = await paste("First call");
    expect({ status, stderr: isCurl ? "" : stderr }).toEqual({ status: 0, stderr: "" });
    for (const id of ["-9223372036854775808", "9223372036854775807"]) expect(stdout).toContain(id);
    expect(sampleOnPage("List all orders", language)).toBe(sampleOnPage("First call", language));

    const first = await paste("Cancel an order");
    expect(first).toMatchObject({ status: 0, stdout: expect.stringMatching(/204|cancelled/) });
    const again = await paste("Cancel an order");
    expect(again.all).toMatch(/order_not_found/);
    expect(again.status === 0).toBe(isCurl);

    // A wrong key ends each program with the service's own words.
    const wrong = keys["business"] ?? "";
    keys["business"] = "sord_wrong";
    const refused = await paste("First call").finally(() => (keys["business"] = wrong));
    expect(refused.all).toMatch(/unauthorized/);
    expect(refused.stderr).not.toContain("Traceback");
  },
);

/** Imports the sample orders again, because samples cancel some of them. */
function placeSampleOrders(): Promise<unknown> {
  return store.ordersJson(["import", join(folder, "orders.ndjson")]);
}

async function execute(command: string, args: readonly string[]) {
  const env = { ...process.env, PATH, STORE_KEY: keys["free"] };
  try {
    return { status: 0, ...(await run(command, args, { cwd: folder, env })) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { status: code, stdout, stderr };
  }
}

/** Returns a sample as the page copies it after the reader has pasted a key. */
function sampleOnPage(label: string, language: string): string {
  const pattern = new RegExp(`aria-label="${label} \\(${language}\\)"><code>(.*?)</code>`, "s");
  const html = pattern.exec(page)?.[1];
  if (html === undefined) throw new Error(`The page has no sample ${label} (${language}).`);
  return textOf(html).replaceAll("YOUR_API_KEY", keys["business"] ?? "");
}

/** Reads the TypeScript and JavaScript samples of all documents, without generated clients. */
function readSamples() {
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
    .map((sample, index) => ({ ...sample, file: `sample-${index + 1}.${sample.extension}` }));
}

/**
 * Returns patterns for the lines that a sample prints, from the comments after `console.log`. In a
 * comment, `…` stands for any text.
 */
function promisesIn(code: string): RegExp[] {
  return [...code.matchAll(/console\.log\(.*\/\/ (.+)$/gm)].map(([, text = ""]) => {
    const literal = text.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(`^${literal.join(".*")}$`, "m");
  });
}
