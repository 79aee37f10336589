import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import packageJson from "../package.json" with { type: "json" };
import { documentedClient } from "../src/operator/build/site.ts";
import { INT64_MAX, INT64_MIN } from "../src/rules/int64.ts";
import { StoreFolder } from "./operator/store-folder.ts";
import { Service } from "./process/service.ts";
import { needs } from "./support/needs.ts";
import { testFolder } from "./support/test-folder.ts";
import { textOf } from "./site/page-text.ts";

const run = promisify(execFile);

const TSC = resolve("node_modules/.bin/tsc");

/** Strict compiler options, which check the type declarations of libraries too. */
const COMPILER_OPTIONS =
  "--strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --skipLibCheck false --allowJs --checkJs --types node --target es2022 --module nodenext --rootDir src --outDir out --pretty false";

const FENCED = /^```(t|j)(?:s|ypescript|avascript)\b.*\n([^]*?)^```$/gm;

/** Matches a file of a generated client, which has a test of its own. */
const GENERATED_CLIENT_FILE = /^\/\/ [\w.-]+\.ts\n/;

const DOCUMENTED_URL = "http://localhost:8787";

/** PATH without the folders that npm adds, so that `node` is this machine's Node. */
const PATH = (process.env["PATH"] ?? "")
  .split(delimiter)
  .filter((entry) => !entry.includes("node_modules"))
  .join(delimiter);

/** The names of the samples of the page. */
const CALLS = ["List all orders", "Cancel an order", "Look at the quota"] as const;

/** The command for a sample of the page in each language, and the file for the sample, if any. */
const LANGUAGES: Readonly<Record<string, { command: string; args: string[]; file?: string }>> = {
  curl: { command: "sh", args: ["-c"] },
  TypeScript: { command: process.execPath, args: ["src/pasted.ts"], file: "src/pasted.ts" },
  JavaScript: { command: process.execPath, args: ["pasted.mjs"], file: "pasted.mjs" },
  Python: { command: "python3", args: ["pasted.py"], file: "pasted.py" },
  Go: { command: "go", args: ["run", "pasted.go"], file: "pasted.go" },
};

/** The TypeScript and JavaScript samples of all documents, without generated clients. */
const samples = globSync(["*.md", "docs/*.md", "src/client/*.md"])
  .toSorted()
  .flatMap((document) =>
    [...readFileSync(document, "utf8").matchAll(FENCED)].map(([, extension, code = ""], index) => ({
      title: `${document}, sample ${index + 1}`,
      file: `${document.replaceAll(/\W/g, "-")}-${index + 1}.${extension}s`,
      code,
    })),
  )
  .filter(({ code }) => !GENERATED_CLIENT_FILE.test(code));
const page = await readFile("dist/site/index.html", "utf8");
const store = new StoreFolder();
const folder = testFolder();
let service: Service;
let url: string;

beforeAll(async () => {
  // The samples use the orders and keys that a first `npm start` creates.
  service = await Service.start(store.path);
  url = `http://localhost:${service.port}`;
  await mkdir(join(folder, "src"), { recursive: true });
  await store.ordersJson(["export", join(folder, "orders.ndjson")]);

  // Runs the command in the client's README that installs the package from the service.
  const readme = readFileSync("src/client/README.md", "utf8");
  const [install = ""] = /(?<=^```sh\n).*(?=\n```$)/m.exec(readme) ?? [];
  expect(textOf(page)).toContain(install);
  const manifest = { name: "fresh", private: true, type: "module" };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  const types = `@types/node@${packageJson.devDependencies["@types/node"]}`;
  const flags = "--prefer-offline --no-audit --no-fund";
  const line = install.replace(DOCUMENTED_URL, url);
  await run("sh", ["-c", `${line} ${types} ${flags}`], { cwd: folder });
});

afterAll(() => service?.end("SIGTERM"));

test("every sample type-checks under --strict, and prints what its comments say", async () => {
  const languages = page.matchAll(/name="listOrders-language" value="([^"]+)"/g);
  expect([...languages].map(([, language]) => language)).toEqual(Object.keys(LANGUAGES));
  expect(samples.map(({ title }) => title)).toContain("src/client/README.md, sample 1");
  const pasted = CALLS.map((label, index) => {
    return { file: `page-${index}.ts`, code: sampleOnPage(label, "TypeScript") };
  });
  for (const { file, code } of [...samples, ...pasted]) {
    await writeFile(join(folder, "src", file), code.replaceAll(DOCUMENTED_URL, url));
  }
  const files = [...samples, ...pasted].map(({ file }) => join("src", file));
  const options = [...COMPILER_OPTIONS.split(" "), ...files];
  const compiler = run(TSC, options, { cwd: folder });
  expect((await compiler.catch((error) => error)).stdout).toBe("");

  for (const { title, file, code } of samples) {
    const { stdout, stderr } = await execute("node", [`out/${file.replace(/ts$/, "js")}`]);
    expect(stderr, title).toBe("");
    for (const promise of promisesIn(code)) expect(stdout, title).toMatch(promise);
  }
});

for (const [language, { command, args, file }] of Object.entries(LANGUAGES)) {
  const isHere = ["", ...PATH.split(delimiter)].some((entry) => existsSync(join(entry, command)));
  const title = `the samples of the page in ${language} list every digit, and cancel an order`;
  test(title, needs(language, isHere), async () => {
    const paste = async (label: string) => {
      const code = sampleOnPage(label, language).replaceAll(DOCUMENTED_URL, url);
      if (file !== undefined) await writeFile(join(folder, file), code);
      return execute(command, file === undefined ? [...args, code] : args);
    };
    // Imports the sample orders again, because other samples cancel some of them.
    await store.ordersJson(["import", join(folder, "orders.ndjson")]);
    const printed = [/-9223372036854775808[^]*\b9223372036854775807/, /204|cancelled/, /minute/];
    for (const [index, label] of CALLS.entries()) {
      expect((await paste(label)).stdout).toMatch(printed[index]!);
    }
    expect(await store.ordersJson(["export", join(folder, "left")])).toEqual({ exported: 9 });
  });
}

test("the generated client compiles under --strict, keeps every digit in Node, cancels one order, and throws the code of an error", async () => {
  await store.ordersJson(["import", join(folder, "orders.ndjson")]);
  // In the project, so that imports of npm packages resolve to the project's packages.
  const cwd = resolve("dist/generated-client");
  await rm(cwd, { recursive: true, force: true });
  await mkdir(cwd);
  const [shell, file] = documentedClient().map(({ code }) => code.replace(DOCUMENTED_URL, url));
  expect(file).toMatch(/^\/\/ orders\.ts\n/);
  await writeFile(join(cwd, "orders.ts"), file!);
  const [, program = "", ...args] = shell!.split("\n").at(-1)!.split(" ");
  // Runs the program without npx, which would take a second longer.
  await run(resolve("test/generated-clients/node_modules/.bin", program), args, { cwd });

  const options =
    "orders.ts --ignoreConfig --strict --skipLibCheck --types node --target es2022 --noEmit --pretty false --module";
  for (const module of ["preserve", "nodenext"]) {
    const compiler = run(TSC, [...options.split(" "), module], { cwd });
    expect((await compiler.catch((error) => error)).stdout, module).toBe("");
  }

  const calls = `
    import { cancelOrder, listOrders } from "./orders.ts";
    const list = () => listOrders().then((all) => [all.length, all[0].id, all.at(-1).id]);
    for (const call of [list, () => cancelOrder(${INT64_MAX}n), list, () => cancelOrder(1004n)])
      console.log(await call().catch((error) => error.message.replace(/: .*/, ":")));`;
  const said = async (secret: string) => {
    const env = { ...process.env, STORE_KEY: secret };
    return (await run(process.execPath, ["--input-type=module", "-e", calls], { cwd, env })).stdout;
  };
  const before = `[ 10, ${INT64_MIN}n, ${INT64_MAX}n ]`;
  const after = `[ 9, ${INT64_MIN}n, 1008n ]`;
  // Two error codes are enough, because the generated client treats all codes alike.
  const printed = [before, "undefined", after, "order_already_shipped:", ""];
  expect(await said(service.demoKeys.enterprise)).toBe(printed.join("\n"));
  expect(await said("")).toBe("unauthorized:\n".repeat(4));
});

/** Runs a program in the fresh project. @throws if its exit status is not 0. */
function execute(command: string, args: readonly string[]) {
  const env = { ...process.env, PATH, STORE_KEY: service.demoKeys.free };
  return run(command, args, { cwd: folder, env });
}

/** Returns a sample as the page copies it after the reader has pasted a key. */
function sampleOnPage(label: string, language: string): string {
  const pattern = new RegExp(`aria-label="${label} \\(${language}\\)"><code>(.*?)</code>`, "s");
  const [, html = ""] = pattern.exec(page) ?? [];
  return textOf(html).replaceAll("YOUR_API_KEY", service.demoKeys.business);
}

/** Returns patterns of what a sample prints: the comments after `console.log`, with `…` for any text. */
function promisesIn(code: string): RegExp[] {
  return [...code.matchAll(/console\.log\(.*\/\/ (.+)$/gm)].map(
    ([, text = ""]) => new RegExp(`^${RegExp.escape(text).replaceAll("…", ".*")}$`, "m"),
  );
}
