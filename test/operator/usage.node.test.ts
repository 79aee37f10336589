import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { generateSecret } from "../../src/operator/key-store/secret.ts";
import { keysProgram } from "../../src/operator/keys/program.ts";
import { ordersProgram } from "../../src/operator/orders/program.ts";
import { startProgram } from "../../src/operator/start/program.ts";
import { runCommand } from "./deploy/run-command.ts";
import { runInProcess } from "./in-process.ts";

const PROGRAMS: Record<string, () => Command> = {
  keys: keysProgram,
  orders: ordersProgram,
  start: startProgram,
};

function run(command: string, ...args: string[]) {
  const program = PROGRAMS[command]?.();
  if (program === undefined) throw new Error(`no program ${command}`);
  return runInProcess(program, args);
}

const create = (...args: string[]) => ["keys", "create", "--plan", "pro", "--name", "N", ...args];
const enterprise = (...args: string[]) => [
  "keys",
  "create",
  "--plan=enterprise",
  "--name=N",
  ...args,
];

describe("wrong usage", () => {
  it.each([
    [["keys"], "Usage: npm run keys --"],
    [["keys", "make"], "unknown command 'make'"],
    [["keys", "create", "--plan", "gold", "--name", "N"], "free, pro, business, enterprise"],
    [create("--per-minute", "5"), "fixed limits"],
    [create("--colour", "red"), "unknown option '--colour'"],
    [["keys", "create", "--nam", "N"], "unknown option '--nam'\n(Did you mean --name?)"],
    [["start", "--prot", "9000"], "unknown option '--prot'\n(Did you mean --port?)"],
    [create("--name", " "), "1 to 100 characters"],
    [create("--name", "a\nb"), "control characters"],
    [create("--name", "x".repeat(101)), "1 to 100 characters"],
    [create("--expires", "tomorrow"), "2027-01-31"],
    [create("--expires", "2027-02-30"), "2027-01-31"],
    [create("--expires", "2027-01-31T12:00:00"), "2027-01-31"],
    [create("--expires", "2027-01-31T12:00:00.0001Z"), "2027-01-31"],
    [create("--env", "moon"), "staging, production"],
    [create("--env", "staging", "--persist-to", "x"), "cannot be used with"],
    [enterprise("--per-minute", "5"), "--per-day"],
    [enterprise("--per-minute", "0", "--per-day", "5"), "from 1 to 1000000000"],
    [enterprise("--per-minute", "1e3", "--per-day", "5"), "from 1 to 1000000000"],
    [enterprise("--per-minute", "5", "--per-day", "1000000001"), "from 1 to 1000000000"],
    [["keys", "list", "--state", "lost"], "active, expired, revoked, banned"],
    [["keys", "list", "--expires-within", "30"], "such as 90m"],
    [["keys", "rotate"], "missing required argument 'id'"],
    [["keys", "rotate", "key_x", "--grace", "1.5h"], "such as 90m"],
    [["keys", "rotate", "key_x", "--grace", "-1h"], "such as 90m"],
    [["keys", "rotate", "key_x", "--grace", "91d"], "90 days"],
    [["keys", "bans", "--limit", "0"], "from 1"],
    [["keys", "find", "abcd1"], "one to four letters or digits"],
    [["keys", "find", "ab8"], "one to four letters or digits"],
    [["keys", "find", ""], "one to four letters or digits"],
    [["keys", "usage", "--days", "367"], "from 1 to 366"],
    [["keys", "usage", "--near", "0"], "from 1 to 100"],
    [["keys", "usage", "--near", "101"], "from 1 to 100"],
    [["keys", "update", "key_x"], "nothing to change"],
    [["keys", "update", "key_x", "--plan", "free", "--per-day", "5"], "fixed limits"],
    [["orders", "import"], "missing required argument 'file'"],
    [["orders", "import", "a", "b"], "too many arguments"],
    [["orders", "export", "--json"], "needs a FILE"],
    [["start", "--port", "0"], "from 1 to 65535"],
    [["start", "--port", "65536"], "from 1 to 65535"],
  ])("%j exits with status 2 and says why", async ([command = "", ...args], reason) => {
    const { status, stdout, stderr } = await run(command, ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain(reason);
  });
});

describe("the error for a secret in the wrong argument does not repeat the secret", () => {
  const secret = generateSecret();
  it.each([
    ["as an option", ["keys", "show", `--${secret}`]],
    ["as an option of the program", ["orders", `--${secret}`]],
    ["as a command", ["keys", secret]],
    ["as the value of an option", ["keys", "list", "--plan", secret]],
    ["within another value", ["keys", "list", "--state", `key_${secret}`]],
    ["mistyped", ["keys", "list", "--plan", secret.slice(0, -1).toUpperCase()]],
    ["as a file", ["orders", "import", secret]],
    ["as a name", ["keys", "create", "--plan", "pro", "--name", secret]],
    ["within a name", ["keys", "create", "--plan", "pro", "--name", `of ${secret}`]],
  ])("%s", async (_, [command = "", ...args]) => {
    const { status, stdout, stderr } = await run(command, ...args);
    expect({ isRefused: status !== 0, stdout }).toEqual({ isRefused: true, stdout: "" });
    expect(stderr).toContain("sord_…");
    expect(stderr.toLowerCase()).not.toContain(secret.slice(5, 15));
  });
});

it("the name of a key may begin like a secret", async () => {
  const { stderr } = await run("keys", "create", "--plan", "gold", "--name", "sord_shop");
  expect(stderr).toContain("free, pro, business, enterprise");
});

const CREATE = ["create", "--plan", "free", "--name", "A"];

describe("the errors of files", () => {
  it.each([
    [["orders", "import", "no/such/file"], "error: no/such/file does not exist: check the path\n"],
    [["orders", "import", "package.json/x"], "package.json/x is not possible"],
    [["keys", ...CREATE, "--persist-to", "package.json"], "package.json is a file, not a folder"],
    [["keys", ...CREATE, "--persist-to", "package.json/x"], "package.json/x is not possible"],
  ])("of %j say what to do", async ([command = "", ...args], message) => {
    const { status, stdout, stderr } = await run(command, ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(/ENO|EEX/);
  });
});

it("--version prints the version", async () => {
  const stdout = `${packageJson.version}\n`;
  expect(await run("keys", "--version")).toEqual({ status: 0, stdout, stderr: "" });
});

it("the exit status of the process is that of the command", async () => {
  const line = ["src/operator/main.ts", "orders", "--nonsense"];
  const outcome = await runCommand(process.execPath, line, { env: {} });
  expect(outcome).toMatchObject({ status: 2, stdout: "" });
  expect(outcome.stderr).toContain("unknown option '--nonsense'");
});
