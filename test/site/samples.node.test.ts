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
const document = JSON.parse(await readFile("dist/site/openapi.json", "utf8"));
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
  // Counts every refusal towards a ban, even in the ten seconds after the first refusal.
  server = await serveWorker(SERVICE, store.path, { BAN_GRACE_SECONDS: "0" });
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

test("the TypeScript samples compile under --strict", async () => {
  const files = ["First call", "Cancel an order"].map((label, index) => ({
    name: `strict-${index}.ts`,
    code: sample(label, "TypeScript"),
  }));
  for (const { name, code } of files) await writeFile(join(folder, name), code);
  const compilerOptions = {
    target: "es2024",
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    types: [],
    lib: ["es2024", "dom"],
    allowImportingTsExtensions: true,
    noEmit: true,
  };
  const config = { compilerOptions, files: files.map(({ name }) => name) };
  await writeFile(join(folder, "package.json"), '{"type":"module"}');
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  expect(await execute(tsc, ["-p", folder, "--pretty", "false"])).toMatchObject({
    status: 0,
    stdout: "",
  });
});

describe("the examples of errors", () => {
  const examples: Record<string, { message: string; status: number }> = Object.fromEntries(
    Object.values<any>(document.components.responses).flatMap((response) =>
      Object.entries<any>(response.content["application/json"].examples).map(
        ([code, { value }]) => [code, value],
      ),
    ),
  );

  async function answer(path: string, method: string, key = ""): Promise<any> {
    const headers = new Headers(key === "" ? {} : { Authorization: `Bearer ${key}` });
    return (await fetch(`${server.url}${path}`, { method, headers })).json();
  }

  test.each([
    ["unauthorized", "/v1/store/orders", "GET", "no key"],
    ["order_not_found", "/v1/store/orders/42", "DELETE", "pro"],
    ["not_found", "/v1/orders", "GET", "pro"],
    ["method_not_allowed", "/v1/store/orders", "POST", "pro"],
    ["order_already_shipped", "/v1/store/orders/1004", "DELETE", "pro"],
  ])("%s is the same as in the service's response", async (code, path, method, plan) => {
    expect(await answer(path, method, keys[plan])).toStrictEqual(examples[code]);
  });

  test("of limits and bans are the same as in the service's responses, except the seconds", async () => {
    const anySeconds = ({ message, ...error }: any) => ({
      ...error,
      message: message.replace(/Wait \d+ seconds?/, "Wait"),
    });
    const answers = new Map<string, unknown>();
    for (let sent = 0; sent < 200 && !answers.has("api_key_banned"); sent++) {
      const error = await answer("/v1/store/orders/42", "DELETE", keys["free"]);
      answers.set(error.code, anySeconds(error));
    }
    for (const code of ["rate_limit_exceeded", "api_key_banned"]) {
      expect(answers.get(code)).toStrictEqual(anySeconds(examples[code]));
    }
  });
});
