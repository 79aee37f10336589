import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { PROGRAMS } from "../../src/operator/programs.ts";
import { runCommand } from "./deploy/run-command.ts";
import { runInProcess } from "./in-process.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
const folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
beforeAll(() => store.make());
afterEach(() => vi.unstubAllEnvs());
afterAll(() => {
  store.remove();
  rmSync(folder, { recursive: true });
});

describe("a command whose output nobody reads", () => {
  async function runUnread(...args: readonly string[]) {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.destroy();
    const [[status], stderr] = await Promise.all([once(child, "close"), text(child.stderr)]);
    return { status: status as number, stderr };
  }
  const runCommandUnread = (...args: readonly string[]) =>
    runUnread("src/operator/main.ts", ...args, "--persist-to", store.path);

  it("finishes its work", async () => {
    const done = join(folder, "done");
    const program = `
      import { createProgram, runProgram } from "./src/operator/command-line.ts";
      import { setTimeout } from "node:timers/promises";
      import { writeFileSync } from "node:fs";
      const program = createProgram("work", "").action(async () => {
        process.stdout.write("begun\\n");
        await setTimeout(50);
        writeFileSync(${JSON.stringify(done)}, "");
        process.stdout.write("done\\n");
      });
      await runProgram(program, []);`;
    const outcome = await runUnread("--input-type=module", "--eval", program);
    expect(outcome).toEqual({ status: 0, stderr: "" });
    expect(existsSync(done)).toBe(true);
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

  it("fails if it was to print a new secret", async () => {
    const outcome = await runCommandUnread("keys", "create", "--plan", "free", "--name", "Unread");
    const [{ id }] = await store.keysJson("list", "--name", "Unread");
    expect(outcome.status).toBe(1);
    expect(outcome.stderr).toContain(`error: the new secret of ${id} could not be printed`);
  });
});

/** Returns each command, with its program and its path, such as `["list"]`. */
async function everyCommand(): Promise<{ program: Command; path: string[]; command: Command }[]> {
  const programs = await Promise.all(Object.values(PROGRAMS).map((load) => load()));
  return programs.flatMap((program) =>
    program.commands.length === 0
      ? [{ program, path: [], command: program }]
      : program.commands.map((command) => ({ program, path: [command.name()], command })),
  );
}

describe("an option before --, which npm keeps for itself", () => {
  it.each([
    [
      ["keys", "create", "--plan", "free", "--name", "Pet shop"],
      `npm run keys -- create --persist-to ${store.path} --plan free --name 'Pet shop'`,
    ],
    [
      ["keys", "list", "--env=production"],
      `npm run keys -- list --persist-to ${store.path} --env production`,
    ],
  ])("refuses npm run %j, and prints the line with --", async (args, line) => {
    const npm = ["run", "-s", ...args, "--", "--persist-to", store.path];
    const { status, stdout, stderr } = await runCommand("npm", npm, { env: {} });
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain(`nothing was done. Type the options after --:\n  ${line}\n`);
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

  it("does not refuse an option that was typed after --", async () => {
    vi.stubEnv("npm_config_json", "true");
    expect((await store.keys("list", "--json")).status).toBe(0);
  });
});

it("every help fits into 78 columns", async () => {
  vi.stubEnv("COLUMNS", "78");
  for (const { program, path } of await everyCommand()) {
    const { status, stdout } = await runInProcess(program, [...path, "--help"]);
    expect(status).toBe(0);
    const tooLong = stdout.split("\n").filter((line) => line.length > 78);
    expect(tooLong, path.join(" ")).toEqual([]);
  }
});

it("the help marks required options, and an error names all that are missing", async () => {
  vi.stubEnv("COLUMNS", "120");
  const help = await store.keys("create", "--help");
  expect(help.stdout.match(/--(?:plan|name) .*\(required\)/g)).toHaveLength(2);
  const { status, stderr } = await store.keys("create");
  expect(status).toBe(2);
  expect(stderr).toMatch(
    /^error: required options '--plan <plan>' and '--name <text>' not specified\n/,
  );
});
