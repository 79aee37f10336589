import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
const folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
beforeAll(() => store.make());
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
