import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { generateSecret } from "../../src/store/keys/new-secret.ts";
import { needs } from "../support/needs.ts";
import { failure, programOf, runCommand, runInProcess } from "./commands.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
beforeAll(() => store.ordersJson(["import", "-"], '{"id":1}'));
afterEach(() => vi.unstubAllEnvs());

async function run(line: string) {
  const [command = "", ...args] = line.split(" ");
  return runInProcess(await programOf(command), args);
}

/** Runs a command as npm does after it took these options for itself. */
async function runWith(settings: Readonly<Record<string, string>>, line: string) {
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(`npm_config_${name}`, value);
  return run(line).finally(() => vi.unstubAllEnvs());
}

// npm puts its own Node first in PATH; another one, behind it, may be an old one.
const oldNode = (process.env["PATH"] ?? "")
  .split(delimiter)
  .map((folder) => join(folder, "node"))
  .find((node) => /^v(?:1|20|22)\d*\./.test(String(spawnSync(node, ["--version"]).stdout)));
it.each([
  ["src/operator/main.js", "keys", "--help"],
  ["node_modules/.bin/vitest", "run", "core"],
])(
  "an old Node that runs %s is told in one sentence",
  needs("an old Node", oldNode !== undefined),
  async (...args) => {
    const told = /^error: Node [\d.]+ is too old\. Start commands and tests through npm.*\n$/;
    const refused = { status: 1, stdout: "", stderr: expect.stringMatching(told) };
    expect(await runCommand(oldNode!, args)).toEqual(refused);
  },
);

const CREATE = "keys create --plan pro --name N";
const ENTERPRISE = "keys create --plan enterprise --name N";

it.each([
  // The name is valid, although it begins like a secret. Only the plan is wrong.
  ["keys create --plan gold --name sord_shop", "free, pro, business, enterprise"],
  ["keys create --plan pro --name a\u2028b", "control and direction characters"],
  ["keys create --plan pro --name a\u202eb", "control and direction characters"],
  [`keys create --plan pro --name ${"x".repeat(101)}`, "1 to 100 characters"],
  [`${CREATE} --per-minute 5`, "fixed limits: --per-minute and --per-day are"],
  [`${CREATE} --expires 2027-02-30`, "2027-01-31"],
  [`${CREATE} --expires 2027-01-31T12:00:00`, "2027-01-31"],
  [`${CREATE} --expires 2027-01-31T12:00:00.0001Z`, "2027-01-31"],
  [`${CREATE} --env staging --persist-to x`, "cannot be used with"],
  [`${ENTERPRISE} --per-minute 5`, "--per-day"],
  [`${ENTERPRISE} --per-minute 5 --per-day 1000000001`, "from 1 to 1000000000"],
  [`${CREATE} --expires 2027-01-31T24:00:00Z`, "2027-01-31"],
  [`${CREATE} --expires 2027-01-31T12:00:00+30:00`, "2027-01-31"],
  ["keys list --ending abcde", "one to four letters or digits"],
  ["keys list --ending abc8", "one to four letters or digits"],
  ["keys audit --limit 0", "from 1 to 999999999"],
  ["keys rotate key_x --grace 5mm", "such as 90m"],
  ["orders import ", "Expected a path"],
  ["keys rotate key_x --grace 1.5h", "such as 90m"],
  ["keys rotate key_x --grace 91d", "90 days"],
  ["keys usage --days 367", "from 1 to 366"],
  ["keys update key_x", "nothing to change"],
  ["start --port 65536", "from 1 to 65535"],
  ["verify --url https://shop.example/v1", "an address without a path"],
  ["verify --url https://shop.example/?a", "an address without a path"],
  ["verify --url ftp://shop.example", "an address without a path"],
  ["keys create --plna pro", "unknown option '--plna'\n(Did you mean --plan?)"],
  ["keys create --plan pro", "required option '--name <text>' not specified"],
  ["orders import", "missing required argument 'file'"],
  ["orders export a b", "too many arguments"],
])("%j exits with status 2 and says why", async (line, reason) => {
  expect(await run(line)).toEqual(failure(reason, 2));
});

it("a path is looked up where the operator stands, and an error names it in full", async () => {
  const missing = failure(`error: ${store.path}/no/such/file: no such file or directory\n`);
  vi.stubEnv("INIT_CWD", store.path);
  expect(await run("orders import no/such/file")).toEqual(missing);
  expect(await run("keys list --persist-to=a")).toEqual(failure(`no store in ${store.path}/a,`));
  const isFile = failure(`${process.cwd()}/package.json is a file: name a folder\n`);
  for (const inFile of ["package.json", "package.json/store"]) {
    expect(await run(`${CREATE} --persist-to ${process.cwd()}/${inFile}`)).toEqual(isFile);
  }
  // As typed to Node itself: then the folder of the process counts.
  const line =
    'cd "$2" && exec env -i INIT_CWD=/ "$0" "$1" keys usage --persist-to=. --html=a.html';
  const args = [process.execPath, join(process.cwd(), "src/operator/main.js"), store.path];
  const written = { status: 0, stdout: "", stderr: `The page is in ${store.path}/a.html.\n` };
  expect(await runCommand("bash", ["-c", line, ...args])).toEqual(written);
});

it("an error does not repeat a secret that stands in an argument", async () => {
  const secret = generateSecret();
  for (const [line, status] of [
    [`keys revoke ${secret}`, 2],
    [`keys create --plan pro --name=of${secret}`, 2],
    [`keys show ${secret.slice(0, -1).toUpperCase()}`, 2],
    [`keys list --plan ${secret.slice(0, 20)}`, 2],
    [`orders import ${secret.slice(0, 20)}`, 1],
  ] as const) {
    const outcome = await run(line);
    expect(outcome).toEqual(failure("sord_…", status));
    expect(outcome.stderr.toLowerCase()).not.toContain(secret.slice(5, 15));
  }
});

const NO_SPACE = /^error: the output: no space left.*: make room, .*\n$/;
for (const [output, redirection, failed] of [
  ["a closed pipe", "> >(true); wait $!", { status: 141, stdout: "", stderr: "" }],
  ["/dev/full", "> /dev/full", { status: 1, stdout: "", stderr: expect.stringMatching(NO_SPACE) }],
] as const) {
  it(
    `a command fails in ${output}, and names a key whose secret is lost`,
    needs(output, !output.startsWith("/") || existsSync(output)),
    async () => {
      const runTyped = (line: string) => {
        const typed = `"$0" src/operator/main.js ${line} --persist-to=${store.path}`;
        return runCommand("bash", ["-c", `exec ${redirection}; exec ${typed}`, process.execPath]);
      };
      const create = "keys create --plan=free --name=N";
      const lines = [create, `${create} --json`, "orders export", "keys list --json"];
      const results = await Promise.all(lines.map(runTyped));
      expect(results.splice(2)).toEqual([failed, failed]);
      for (const created of results) {
        const [, named = ""] =
          /the key (\S+) is stored, but its secret could not be printed/.exec(created.stderr) ?? [];
        const { id } = await store.keysJson("show", named);
        const revoke = `npm run keys -- revoke ${id} --persist-to=${store.path}\n`;
        expect(created).toEqual(failure(revoke));
      }
    },
  );
}

it("every command has --help, and refuses its options if npm kept them", async () => {
  const scripts = Object.values(packageJson.scripts).filter((line) => line.includes("main.js"));
  for (const script of scripts) {
    const name = script.split(" ").at(-1)!;
    const program = await programOf(name);
    for (const command of program.commands.length > 0 ? program.commands : [program]) {
      const path = command === program ? [] : [command.name()];
      const help = await runInProcess(program, [...path, "--help"]);
      expect(help).toMatchObject({ status: 0, stdout: expect.stringContaining("Usage: npm ") });
      expect(help.stdout).not.toContain("(default: false)");
      expect(Math.max(...help.stdout.split("\n").map((each) => each.length))).toBeLessThan(81);
      const required = command.options.filter(({ mandatory }) => mandatory);
      expect(help.stdout.match(/\(required\)/g) ?? []).toHaveLength(required.length);
      for (const { long, short, flags, required: takesValue } of command.options) {
        // CI may set --yes for npm itself. Without it, a command asks, or fails.
        if (long === undefined || short === "-V" || long === "--yes") continue;
        const settings = { [long.slice(2).replaceAll("-", "_")]: "true" };
        const line = [program.name(), ...path, takesValue ? flags : long].join(" ");
        const kept = `npm kept ${long} for itself, so nothing was done.`;
        const stderr = `error: ${kept} Type all options after --, as in:\n  ${line}\n`;
        const refused = { status: 2, stdout: "", stderr };
        expect(await runWith(settings, [name, ...path].join(" "))).toEqual(refused);
      }
    }
  }
});

it("help is as wide as the terminal", async () => {
  const [program, args] = [await programOf("keys"), ["undo", "--help"]];
  const { stdout } = await runInProcess(program, args, "", { columns: 999 });
  expect(stdout).toContain("unless a later change replaced them. Keys that were created since");
});

it("help loads neither drizzle nor zod, which take a second", async () => {
  const resolve = `(name, ...rest) => {
    if (/^(?:drizzle-orm|zod)/.test(name)) process.stderr.write(name);
    return rest[1](name, rest[0]);
  }`;
  const hooks = `import { registerHooks } from "node:module"; registerHooks({ resolve: ${resolve} });`;
  const watch = ["--import", `data:text/javascript,${encodeURIComponent(hooks)}`];
  const helps = ["keys", "orders", "start", "deploy", "verify"].map((name) =>
    runCommand(process.execPath, [...watch, "src/operator/main.js", name, "--help"]),
  );
  expect(await Promise.all(helps)).toMatchObject(helps.map(() => ({ status: 0, stderr: "" })));
});

it("a command does nothing if npm kept options that stood before --", async () => {
  const options = ["--plan", "free", "--name", "Pet's", "--env=production"];
  const npm = ["run", "-s", "keys", "create", ...options, "--", "--persist-to", store.path];
  const refused = await runCommand("npm", npm);
  expect(refused).toEqual(failure("npm kept --env and --plan and --name for itself", 2));
  const line = `create --persist-to ${store.path} --env production --plan free --name 'Pet'\\''s'`;
  expect(refused.stderr).toContain(`\n  npm run keys -- ${line}\n`);
  expect(await store.keysJson("list", "--name=Pet's")).toEqual([]);
  // npm takes `--days` for several options of its own.
  const letters = { all: "true", yes: "true" };
  const meant = (typed: string) => failure(`npm run keys -- ${typed}\n`, 2);
  expect(await runWith(letters, "keys usage 30")).toEqual(meant("usage --days 30"));
  // npm takes no number as the value of an option that it does not know.
  const numbers = { plan: "pro", per_minute: "true", name: "Zoo" };
  const created = meant("create --plan pro --name Zoo --per-minute 5");
  expect(await runWith(numbers, "keys create 5")).toEqual(created);
  // pnpm passes the `--` on, and CI sets `yes` for npm itself.
  const list = `--json --name=N --persist-to=${store.path}`;
  expect((await runWith(letters, `keys -- list ${list}`)).status).toBe(0);
  // An option that was typed after -- too does no harm.
  expect((await runWith({ json: "N", name: "N" }, `keys list ${list}`)).status).toBe(0);
});
