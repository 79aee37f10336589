import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { generateSecret } from "../../src/operator/keys/key-changes.ts";
import { PROGRAMS } from "../../src/operator/programs.ts";
import { runCommand } from "./deploy/run-command.ts";
import { failure, runInProcess } from "./in-process.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
const folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
beforeAll(() => store.make());
afterEach(() => vi.unstubAllEnvs());
afterAll(() => {
  store.remove();
  rmSync(folder, { recursive: true });
});

async function run(command: string, ...args: string[]) {
  const program = await PROGRAMS[command]?.();
  if (program === undefined) throw new Error(`no program ${command}`);
  return runInProcess(program, args);
}

const create = (...args: string[]) => ["keys", "create", "--plan", "pro", "--name", "N", ...args];

describe("wrong usage", () => {
  it.each([
    ["keys", "Usage: npm run keys --"],
    // The name is valid, although it begins like a secret. Only the plan is wrong.
    ["keys create --plan gold --name sord_shop", "free, pro, business, enterprise"],
    [
      "keys create --plan pro --name N --per-minute 5",
      "fixed limits: --per-minute and --per-day are",
    ],
    ["keys create --plan pro --name N --nam N", "unknown option '--nam'\n(Did you mean --name?)"],
    ["keys create --plan pro --name \t", "1 to 100 characters"],
    ["keys create --plan pro --name a\u2028b", "control characters"],
    [`keys create --plan pro --name ${"x".repeat(101)}`, "1 to 100 characters"],
    ["keys create --plan pro --name N --expires 2027-02-30", "2027-01-31"],
    ["keys create --plan pro --name N --expires 2027-01-31T12:00:00", "2027-01-31"],
    ["keys create --plan pro --name N --expires 2027-01-31T12:00:00.0001Z", "2027-01-31"],
    ["keys create --plan pro --name N --near paris", "Allowed choices are wnam, enam, sam, weur"],
    ["keys create --plan pro --name N --env moon", "staging, production"],
    ["keys create --plan pro --name N --env staging --persist-to x", "cannot be used with"],
    ["keys create --plan enterprise --name N --per-minute 5", "--per-day"],
    ["keys create --plan enterprise --name N --per-minute 0 --per-day 5", "from 1 to 1000000000"],
    ["keys create --plan enterprise --name N --per-minute 1e3 --per-day 5", "from 1 to 1000000000"],
    ["keys create --plan pro --name N --per-day 1000000001", "from 1 to 1000000000"],
    ["keys list --state lost", "active, expired, revoked, banned"],
    ["keys list --ending abcd1", "one to four letters or digits"],
    ["keys list --ending ab8", "one to four letters or digits"],
    ["keys list --ending ", "one to four letters or digits"],
    ["keys rotate key_x --grace 1.5h", "such as 90m"],
    ["keys rotate key_x --grace -1h", "such as 90m"],
    ["keys rotate key_x --grace 91d", "90 days"],
    ["keys audit --limit 0", "from 1"],
    ["keys usage --days 367", "from 1 to 366"],
    ["keys usage --near --html page.html", "cannot be used with"],
    ["keys update key_x", "nothing to change"],
    ["orders export --json", "needs a FILE"],
    ["start --prot 9000", "unknown option '--prot'\n(Did you mean --port?)"],
    ["start --port 0", "from 1 to 65535"],
    ["start --port 65536", "from 1 to 65535"],
    ["start 9000", "too many arguments"],
  ])("%j exits with status 2 and says why", async (line, reason) => {
    const [command = "", ...args] = line.split(" ");
    expect(await run(command, ...args)).toEqual(failure(reason, 2));
  });
});

describe("the error for a secret in the wrong argument does not repeat the secret", () => {
  const secret = generateSecret();
  it.each([
    ["as an id", ["keys", "revoke", secret], 2],
    ["as an option", ["orders", `--${secret}`], 2],
    ["within a name", create("--name", `of ${secret}`), 2],
    ["mistyped", ["keys", "show", secret.slice(0, -1).toUpperCase()], 2],
    ["cut off, as an option's value", ["keys", "list", "--plan", secret.slice(0, 20)], 2],
    ["cut off, as a file", ["orders", "import", secret.slice(0, 20)], 1],
  ])("%s", async (_, [command = "", ...args], status) => {
    const outcome = await run(command, ...args);
    expect(outcome).toMatchObject({ status, stdout: "" });
    expect(outcome.stderr).toContain("sord_…");
    expect(outcome.stderr.toLowerCase()).not.toContain(secret.slice(5, 15));
  });
});

describe("the errors of files", () => {
  it.each([
    [["orders", "import", "no/such/file"], "error: no/such/file does not exist: check the path\n"],
    [["orders", "import", "package.json/x"], "package.json/x is not possible"],
    [create("--persist-to", "package.json"), "package.json is a file, not a folder"],
    [create("--persist-to", "package.json/x"), "package.json/x is not possible"],
    [["start", "--persist-to", "package.json"], "package.json is a file, not a folder"],
  ])("of %j say what to do", async ([command = "", ...args], message) => {
    const { status, stdout, stderr } = await run(command, ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(/ENO|EEX/);
  });
});

describe("a command whose output nobody reads", () => {
  async function runWithStdout(stdout: "pipe" | number, ...args: readonly string[]) {
    const child = spawn(process.execPath, args, { stdio: ["ignore", stdout, "pipe"] });
    child.stdout?.destroy();
    const [[status], stderr] = await Promise.all([once(child, "close"), text(child.stderr!)]);
    return { status: status as number, stderr };
  }
  const runUnread = (...args: readonly string[]) => runWithStdout("pipe", ...args);
  const runCommandUnread = (...args: readonly string[]) =>
    runUnread("src/operator/main.ts", ...args, "--persist-to", store.path);

  const runAction = (action: string) =>
    runUnread(
      "--input-type=module",
      "--eval",
      `import { createProgram, runProgram } from "./src/operator/command-line.ts";
      import { writeFileSync } from "node:fs";
      import { pipeline } from "node:stream/promises";
      import { setTimeout } from "node:timers/promises";
      await runProgram(createProgram("work", "").action(${action}), []);`,
    );

  it("finishes its work", async () => {
    const done = join(folder, "done");
    const outcome = await runAction(`async () => {
      process.stdout.write("begun\\n");
      await setTimeout(50);
      writeFileSync(${JSON.stringify(done)}, "");
      process.stdout.write("done\\n");
    }`);
    expect(outcome).toEqual({ status: 0, stderr: "" });
    expect(existsSync(done)).toBe(true);
  });

  it("reports a failure of what it writes, not of its output", async () => {
    const orders = 'async function* () { throw new Error("no orders"); }';
    const outcome = await runAction(`() => pipeline(${orders}, process.stdout)`);
    expect(outcome).toEqual({ status: 1, stderr: "error: no orders\n" });
  });

  it("ends quietly, with the status of a closed pipe, if it only prints data", async () => {
    await store.ordersJson(["import", "-"], '{"id":1}');
    const commands = [
      ["orders", "export"],
      ["keys", "list", "--json"],
    ];
    const outcomes = await Promise.all(commands.map((args) => runCommandUnread(...args)));
    expect(outcomes).toEqual(commands.map(() => ({ status: 141, stderr: "" })));
  });

  it.skipIf(!existsSync("/dev/full"))("fails if its output does not fit on the disk", async () => {
    const full = openSync("/dev/full", "w");
    const outcome = await runWithStdout(full, "src/operator/main.ts", "keys", "--version");
    closeSync(full);
    expect(outcome).toEqual({
      status: 1,
      stderr: "error: the output does not fit on the disk: make room, or name another place\n",
    });
  });

  it.skipIf(!existsSync("/dev/full")).each(["/dev/full", "a closed pipe"])(
    "fails and says what to do with a key whose secret is lost in %s",
    async (output) => {
      const full = openSync("/dev/full", "w");
      const stdout = output === "/dev/full" ? full : "pipe";
      const args = [
        "keys",
        "create",
        "--plan=free",
        `--name=${output}`,
        "--persist-to",
        store.path,
      ];
      const { status, stderr } = await runWithStdout(stdout, "src/operator/main.ts", ...args);
      closeSync(full);
      const [{ id }] = await store.keysJson("list", "--name", output);
      expect(status).toBe(1);
      expect(stderr).toContain(
        `error: the key ${id} is stored, but its secret could not be printed`,
      );
      expect(stderr).toContain(`npm run keys -- revoke ${id} --persist-to ${store.path}\n`);
      expect(stderr).not.toContain("Keep this key");
    },
  );
});

async function everyCommand(): Promise<{ program: Command; path: string[]; command: Command }[]> {
  const programs = await Promise.all(Object.values(PROGRAMS).map((load) => load()));
  return programs.flatMap((program) =>
    program.commands.length === 0
      ? [{ program, path: [], command: program }]
      : program.commands.map((command) => ({ program, path: [command.name()], command })),
  );
}

describe("an option before --, which npm keeps for itself", () => {
  it("refuses them, with one example", async () => {
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

  it("refuses every option of every command", async () => {
    for (const { program, path, command } of await everyCommand()) {
      for (const { long, short } of command.options) {
        if (long === undefined || short === "-V") continue;
        const variable = `npm_config_${long.slice(2).replaceAll("-", "_")}`;
        vi.stubEnv(variable, "true");
        const { status, stderr } = await runInProcess(program, path);
        expect({ status, stderr }).toEqual({
          status: 2,
          stderr: expect.stringContaining(`error: npm kept ${long} for itself`),
        });
        vi.stubEnv(variable, undefined);
      }
    }
  });

  it("recognises options that npm takes for several of its own", async () => {
    for (const name of ["all", "yes"]) vi.stubEnv(`npm_config_${name}`, "true");
    expect((await run("keys", "usage", "30")).stderr).toContain(
      "error: npm kept --days for itself",
    );
  });

  it("does not refuse an option that was typed after --", async () => {
    vi.stubEnv("npm_config_json", "true");
    vi.stubEnv("npm_config_name", "N");
    expect((await store.keys("list", "--json", "--name=N")).status).toBe(0);
  });
});

it("every help fits into 80 columns, and that of npm run keys into 24 lines", async () => {
  for (const { program, path } of await everyCommand()) {
    const { status, stdout } = await runInProcess(program, [...path, "--help"]);
    expect(status).toBe(0);
    const tooLong = stdout.split("\n").filter((line) => line.length > 80);
    expect(tooLong, path.join(" ")).toEqual([]);
  }
  const { stdout } = await run("keys", "--help");
  expect(stdout.split("\n").length).toBeLessThanOrEqual(24);
});

it("the help marks required options, and an error names the first that is missing", async () => {
  const help = await store.keys("create", "--help");
  expect(help.stdout.match(/\(required\)/g)).toHaveLength(2);
  const { status, stderr } = await store.keys("create");
  expect(status).toBe(2);
  expect(stderr).toMatch(/^error: required option '--plan <plan>' not specified\n/);
});
