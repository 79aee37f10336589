import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type LocalStore, openLocalStore } from "../../src/operator/database/local.ts";
import { loadSampleStore } from "../../src/operator/start/sample-store.ts";
import { orders } from "../../src/schema/orders.ts";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { serveWorker, SERVICE } from "../process/worker-server.ts";
import { textOf } from "./page-text.ts";

const ROOT = process.cwd();
const INT64_MAX = "9223372036854775807";

interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

const page = await readFile("dist/site/index.html", "utf8");
const store = new StoreFolder();
const keys: Record<string, string> = {};
let databases: LocalStore;
let server: Server;
let folder: string;

beforeAll(async () => {
  await store.make();
  databases = await openLocalStore(store.path);
  for (const { plan, secret } of await loadSampleStore(databases, "test", new Date())) {
    keys[plan] = secret;
  }
  server = await serveWorker(SERVICE, store.path);
  folder = await mkdtemp(join(tmpdir(), "store-orders-samples-"));
  await installClient();
});
afterAll(async () => {
  await Promise.all([server?.[Symbol.asyncDispose](), databases?.[Symbol.asyncDispose]()]);
  store.remove();
  await rm(folder, { recursive: true, force: true });
});

/** Installs the client's source as a package in the samples' folder, in place of `npm install`. */
async function installClient(): Promise<void> {
  const installed = join(folder, "node_modules/store-orders-client");
  await mkdir(installed, { recursive: true });
  await symlink(join(ROOT, "src/client"), join(installed, "src"));
  const manifest = { type: "module", exports: "./src/index.ts" };
  await writeFile(join(installed, "package.json"), JSON.stringify(manifest));
}

/** Returns a sample as the page copies it after the reader has pasted a key. */
function sample(label: string, language: string): string {
  const pattern = new RegExp(`aria-label="${label} \\(${language}\\)"><code>(.*?)</code>`, "s");
  const html = pattern.exec(page)?.[1];
  if (html === undefined) throw new Error(`The page has no sample ${label} (${language}).`);
  return textOf(html)
    .replaceAll("http://localhost:8787", server.url)
    .replaceAll("YOUR_API_KEY", keys["business"] ?? "");
}

/** Finds a program in PATH. Ignores the folders that npm adds to PATH. */
async function find(name: string): Promise<string | undefined> {
  const path = (process.env["PATH"] ?? "").split(delimiter);
  const machines = path.filter((entry) => !entry.includes("node_modules")).join(delimiter);
  const found = await promisify(execFile)("sh", ["-c", `command -v ${name}`], {
    env: { PATH: machines },
  }).catch(() => null);
  return found?.stdout.trim();
}

const programs = { python3: await find("python3"), go: await find("go") };
for (const [name, path] of Object.entries(programs)) {
  if (path === undefined) {
    console.error(`\n!!! No ${name} on this machine: its samples on the page are SKIPPED.\n`);
  }
}

/** Runs a sample as a reader would who has pasted it into a file or a shell. */
async function run(language: string, code: string): Promise<Outcome> {
  const file = async (name: string) => {
    await writeFile(join(folder, name), code);
    return join(folder, name);
  };
  switch (language) {
    case "curl":
      return execute("sh", ["-c", code]);
    case "TypeScript":
      return execute(process.execPath, [await file("sample.ts")]);
    case "JavaScript":
      return execute(process.execPath, [await file("sample.mjs")]);
    case "Python":
      return execute(programs.python3 ?? "", [await file("sample.py")]);
    case "Go":
      return execute(programs.go ?? "", ["run", await file("sample.go")]);
    default:
      throw new Error(`No test can run ${language}.`);
  }
}

async function execute(command: string, args: readonly string[]): Promise<Outcome> {
  try {
    const { stdout, stderr } = await promisify(execFile)(command, args, { cwd: folder });
    return { status: 0, stdout, stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { status: code, stdout, stderr };
  }
}

const canRun = (language: string) =>
  (language !== "Python" || programs.python3 !== undefined) &&
  (language !== "Go" || programs.go !== undefined);

const LANGUAGES = [...page.matchAll(/name="first-language" value="([^"]+)"/g)].map(
  ([, language = ""]) => language,
);

test("the page has the first call in five languages", () => {
  expect(LANGUAGES).toStrictEqual(["curl", "TypeScript", "JavaScript", "Python", "Go"]);
});

describe.each(LANGUAGES.filter(canRun))("%s, as pasted", (language) => {
  test("lists every order with every digit", async () => {
    const { status, stdout, stderr } = await run(language, sample("First call", language));
    expect({ status, stderr: language === "curl" ? "" : stderr }).toStrictEqual({
      status: 0,
      stderr: "",
    });
    expect(stdout).toContain(`-9223372036854775808`);
    expect(stdout).toContain(INT64_MAX);
    expect(sample("List all orders", language)).toBe(sample("First call", language));
  });

  test("cancels an order once", async () => {
    await databases.orders.orm.insert(orders).values({ id: 1001n }).onConflictDoNothing();
    const code = sample("Cancel an order", language);
    const first = await run(language, code);
    expect(first.status).toBe(0);
    expect(first.stdout).toMatch(/204|cancelled/);
    const { status, stdout, stderr } = await run(language, code);
    expect(stdout + stderr).toMatch(/order_not_found/);
    if (language !== "curl") expect(status).not.toBe(0);
  });
});

test("the samples compile in TypeScript's strict mode", async () => {
  const files = ["First call", "Cancel an order"].map((label, index) => ({
    file: join(folder, `strict-${index}.mts`),
    code: sample(label, "TypeScript"),
  }));
  for (const { file, code } of files) await writeFile(file, code);
  const options =
    "--strict --noEmit --allowImportingTsExtensions --module nodenext --target es2024";
  const args = [...options.split(" "), "--lib", "es2024,dom", "--types", ""];
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  const outcome = await execute(tsc, [...args, ...files.map(({ file }) => file)]);
  expect(outcome).toMatchObject({ status: 0, stdout: "" });
});
