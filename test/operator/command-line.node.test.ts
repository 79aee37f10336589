import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { generateSecret } from "../../src/operator/keys/key-changes.ts";
import { PROGRAMS } from "../../src/operator/programs.ts";
import { runCommand } from "./deploy/run-command.ts";
import { failure, runInProcess } from "./in-process.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
beforeAll(() => store.ordersJson(["import", "-"], '{"id":1}'));
afterEach(() => vi.unstubAllEnvs());
afterAll(() => store.remove());

async function run(command: string, ...args: string[]) {
  const program = await PROGRAMS[command]?.();
  if (program === undefined) throw new Error(`no program ${command}`);
  return runInProcess(program, args);
}

const CREATE = "keys create --plan pro --name N";
const ENTERPRISE = "keys create --plan enterprise --name N";

it.each([
  ["keys", "Usage: npm run keys --"],
  // The name is valid, although it begins like a secret. Only the plan is wrong.
  ["keys create --plan gold --name sord_shop", "free, pro, business, enterprise"],
  ["keys create", "error: required option '--plan <plan>' not specified"],
  [`${CREATE} --per-minute 5`, "fixed limits: --per-minute and --per-day are"],
  ["keys create --plan pro --name \t", "1 to 100 characters"],
  ["keys create --plan pro --name a\u2028b", "control characters"],
  [`keys create --plan pro --name ${"x".repeat(101)}`, "1 to 100 characters"],
  [`${CREATE} --expires 2027-02-30`, "2027-01-31"],
  [`${CREATE} --expires 2027-01-31T12:00:00`, "2027-01-31"],
  [`${CREATE} --expires 2027-01-31T12:00:00.0001Z`, "2027-01-31"],
  [`${CREATE} --env moon`, "staging, production"],
  [`${CREATE} --env staging --persist-to x`, "cannot be used with"],
  [`${ENTERPRISE} --per-minute 5`, "--per-day"],
  [`${ENTERPRISE} --per-minute 0 --per-day 5`, "from 1 to 1000000000"],
  [`${ENTERPRISE} --per-minute 1e3 --per-day 5`, "from 1 to 1000000000"],
  [`${ENTERPRISE} --per-minute 5 --per-day 1000000001`, "from 1 to 1000000000"],
  ["keys list --ending abcd1", "one to four letters or digits"],
  ["keys list --ending ab8", "one to four letters or digits"],
  ["keys list --ending ", "one to four letters or digits"],
  ["keys rotate key_x --grace 1.5h", "such as 90m"],
  ["keys rotate key_x --grace -1h", "such as 90m"],
  ["keys rotate key_x --grace 91d", "90 days"],
  ["keys usage --days 367", "from 1 to 366"],
  ["keys usage --near --html page.html", "cannot be used with"],
  ["keys update key_x", "nothing to change"],
  ["orders export --json", "needs a FILE"],
  ["start --port 65536", "from 1 to 65535"],
  ["verify --url https://shop.example/v1", "an address without a path"],
  ["verify --url ftp://shop.example", "an address without a path"],
  ["build --contact shop.example", "an email address or URL"],
])("%j exits with status 2 and says why", async (line, reason) => {
  const [command = "", ...args] = line.split(" ");
  expect(await run(command, ...args)).toEqual(failure(reason, 2));
});

const secret = generateSecret();
it.each([
  ["as an id", ["keys", "revoke", secret], 2],
  ["as an option", ["orders", `--${secret}`], 2],
  ["within a name", [...CREATE.split(" "), `of ${secret}`], 2],
  ["mistyped", ["keys", "show", secret.slice(0, -1).toUpperCase()], 2],
  ["cut off, as an option's value", ["keys", "list", "--plan", secret.slice(0, 20)], 2],
  ["cut off, as a file", ["orders", "import", secret.slice(0, 20)], 1],
])(
  "an error does not repeat a secret that stands %s",
  async (_, [command = "", ...args], status) => {
    const outcome = await run(command, ...args);
    expect(outcome).toEqual(failure("sord_…", status));
    expect(outcome.stderr.toLowerCase()).not.toContain(secret.slice(5, 15));
  },
);

it.each([
  ["orders import no/such/file", "error: no/such/file: no such file or directory\n"],
  ["orders import package.json/x", "package.json/x: not a directory"],
  [`${CREATE} --persist-to package.json`, "package.json: file already exists"],
  ["start --persist-to package.json", "package.json: file already exists"],
])("the error of the file in %j names the file", async (line, message) => {
  const [command = "", ...args] = line.split(" ");
  const outcome = await run(command, ...args);
  expect(outcome).toEqual(failure(message));
  expect(outcome.stderr).not.toMatch(/ENO|EEX/);
});

describe("a command whose output nobody reads", () => {
  async function runInto(output: string, ...args: readonly string[]) {
    const full = output === "/dev/full" ? openSync(output, "w") : undefined;
    const child = spawn(process.execPath, args, { stdio: ["ignore", full ?? "pipe", "pipe"] });
    child.stdout?.destroy();
    const [[status, signal], stderr] = await Promise.all([
      once(child, "close"),
      text(child.stderr!),
    ]);
    if (full !== undefined) closeSync(full);
    return { status: (status ?? signal) as number | string, stderr };
  }
  const runCommandInto = (output: string, ...args: readonly string[]) =>
    runInto(output, "src/operator/main.ts", ...args, `--persist-to=${store.path}`);

  const runWork = (work: string) => {
    const script = `import { createProgram, runProgram } from "./src/operator/command-line.ts";
      import { withInterruption } from "./src/operator/interruption.ts";
      import { writeFileSync } from "node:fs";
      import { pipeline } from "node:stream/promises";
      import { setTimeout } from "node:timers/promises";
      await runProgram(createProgram("work", "").action(async () => { ${work} }), []);`;
    return runInto("a closed pipe", "--input-type=module", "--eval", script);
  };

  it("finishes its work, and reports only a failure of what it writes", async () => {
    const done = join(store.path, "done");
    const outcome = await runWork(`process.stdout.write("begun\\n");
      await setTimeout(50);
      writeFileSync(${JSON.stringify(done)}, "");
      await pipeline(async function* () { throw new Error("no orders"); }, process.stdout);`);
    expect(outcome).toEqual({ status: 1, stderr: "error: no orders\n" });
    expect(existsSync(done)).toBe(true);
  });

  it("cleans up after a signal, says what stands, and ends by this signal", async () => {
    const work = `await withInterruption("all was done", async (signal) => {
      process.kill(process.pid, "SIGHUP");
      await setTimeout(20_000, undefined, { signal }).catch(() => {});
      await setTimeout(10);
      process.stderr.write("cleaned up\\n");`;
    expect(await runWork(`${work} throw signal.reason; });`)).toEqual({
      status: "SIGHUP",
      stderr: "cleaned up\nerror: ended by SIGHUP before all was done\n",
    });
    expect(await runWork(`${work} });`)).toEqual({ status: 0, stderr: "cleaned up\n" });
  });

  it("ends quietly, with the status of a closed pipe, if it only prints data", async () => {
    const commands = [
      ["orders", "export"],
      ["keys", "list", "--json"],
    ];
    const running = commands.map((args) => runCommandInto("a closed pipe", ...args));
    expect(await Promise.all(running)).toEqual(commands.map(() => ({ status: 141, stderr: "" })));
  });

  it.skipIf(!existsSync("/dev/full"))(
    "fails if its output does not fit on the disk, and says so once",
    async () => {
      expect(await runCommandInto("/dev/full", "orders", "export")).toEqual({
        status: 1,
        stderr: "error: the output: no space left on device\n",
      });
    },
  );

  it.skipIf(!existsSync("/dev/full")).each(["/dev/full", "a closed pipe"])(
    "fails and says what to do with a key whose secret is lost in %s",
    async (output) => {
      const args = ["keys", "create", "--plan=free", `--name=${output}`];
      const { status, stderr } = await runCommandInto(output, ...args);
      const [{ id }] = await store.keysJson("list", "--name", output);
      expect(status).toBe(1);
      expect(stderr).toContain(
        `error: the key ${id} is stored, but its secret could not be printed`,
      );
      expect(stderr).toContain(`npm run keys -- revoke ${id} --persist-to=${store.path}\n`);
      expect(stderr).not.toContain("Keep this key");
    },
  );
});

async function everyCommand() {
  const programs = await Promise.all(Object.values(PROGRAMS).map((load) => load()));
  return programs.flatMap((program) =>
    program.commands.length === 0
      ? [{ program, path: [], command: program }]
      : program.commands.map((command) => ({ program, path: [command.name()], command })),
  );
}

describe("an option before --, which npm keeps for itself", () => {
  it("is refused, with one example", async () => {
    const options = ["--plan", "free", "--name", "Pet shop", "--env=production"];
    const npm = ["run", "-s", "keys", "create", ...options, "--", "--persist-to", store.path];
    expect(await runCommand("npm", npm, { env: {} })).toEqual({
      status: 2,
      stdout: "",
      stderr:
        "error: npm kept --env and --plan and --name for itself, so nothing was done. Type all options after --, as in:\n" +
        "  npm run keys -- create --env <environment> --plan <plan> --name <text>\n",
    });
    expect((await store.keys("list")).stdout).not.toContain("Pet shop");
  });

  it("is refused in every command, unless it was typed after -- too", async () => {
    for (const { program, path, command } of await everyCommand()) {
      for (const { long, short } of command.options) {
        if (long === undefined || short === "-V") continue;
        const variable = `npm_config_${long.slice(2).replaceAll("-", "_")}`;
        vi.stubEnv(variable, "true");
        const { status, stderr } = await runInProcess(program, path);
        expect([status, stderr]).toEqual([
          2,
          expect.stringContaining(`npm kept ${long} for itself`),
        ]);
        vi.stubEnv(variable, undefined);
      }
    }
    for (const name of ["json", "name"]) vi.stubEnv(`npm_config_${name}`, "N");
    expect((await store.keys("list", "--json", "--name=N")).status).toBe(0);
    // npm takes `--days` for several options of its own.
    for (const name of ["all", "yes"]) vi.stubEnv(`npm_config_${name}`, "true");
    expect((await run("keys", "usage", "30")).stderr).toContain("and --days for itself");
  });
});

it("every help fits into 80 columns, that of npm run keys into 24 lines, and required options are marked", async () => {
  for (const { program, path } of await everyCommand()) {
    const { status, stdout } = await runInProcess(program, [...path, "--help"]);
    expect(status).toBe(0);
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    expect(stdout).not.toContain("default: false");
  }
  expect((await run("keys", "--help")).stdout.split("\n").length).toBeLessThanOrEqual(24);
  expect((await store.keys("create", "--help")).stdout.match(/\(required\)/g)).toHaveLength(2);
});
