import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { join } from "node:path";
import { StatementSync } from "node:sqlite";
import { text as readText } from "node:stream/consumers";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { IMPORT_SIZES } from "../../../src/operator/orders/import.ts";
import { testFolder } from "../../support/test-folder.ts";
import { interrupt } from "../deploy/faults.ts";
import { PATIENCE } from "../../support/patience.ts";
import { beforeStatements, StoreFolder } from "../store-folder.ts";

const linesOf = (count: number) =>
  Array.from({ length: count }, (_, id) => `{"id":${id},"status":"pending"}\n`).join("");
const ORDERS = linesOf(60);
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const REAL_SIZES = { ...IMPORT_SIZES };
const folder = testFolder();
const stores = { empty: new StoreFolder(), full: new StoreFolder() };
let store: StoreFolder;
beforeAll(async () => {
  await stores.empty.make();
  await stores.full.ordersJson(["import", "-"], ORDERS);
});
beforeEach(() => {
  store = new StoreFolder();
  Object.assign(IMPORT_SIZES, { partBytes: 1_000 });
});
afterEach(() => {
  Object.assign(IMPORT_SIZES, REAL_SIZES);
});

const exported = async () => (await store.orders(["export"])).stdout;
const written = async () => fs.readFileSync(join(folder, "out.ndjson"), "utf8");

describe.each([
  ["import", stores.empty, "in.ndjson", ORDERS, "", exported],
  ["export", stores.full, "out.ndjson", "earlier", "earlier", written],
] as const)("orders %s", (command, template, name, text, before, state) => {
  it.each(["a signal", "a full disk"])(
    "with %s at any statement is done or undone, and the same command again finishes",
    async (fault) => {
      const file = join(folder, name);
      for (let step = 1, isOver = false; !isOver; step += 1) {
        store = new StoreFolder();
        fs.cpSync(template.path, store.path, { recursive: true });
        fs.writeFileSync(file, text);
        const files = fs.readdirSync(folder);
        let isHeard = false;
        const listeners = process.listenerCount("SIGHUP");
        const queries: string[] = [];
        const spy = beforeStatements((query) => {
          if (queries.push(query) !== step) return;
          if (fault === "a full disk") throw new Error("database or disk is full");
          isHeard = process.listenerCount("SIGHUP") > listeners;
          interrupt(step);
        });
        const { status, stdout, stderr } = await store.orders([command, file]);
        spy.mockRestore();
        isOver = queries.length < step;
        const label = `statement ${step}: ${stderr}`;
        const isDone = status === 0;
        if (isOver) expect(isDone, label).toBe(true);
        expect(stdout !== "", label).toBe(isDone);
        if (!isDone) expect(stderr, label).toMatch(/^error: (?!.*line \d).*\n$/);
        if (fault === "a signal") {
          if (!isDone) expect(stderr).toContain(`ended by ${SIGNALS[step % 3]} before`);
          const placing = /order_segments|SELECT 1 FROM orders/;
          const reached = queries.slice(0, step).some((query) => placing.test(query));
          expect(isDone, label).toBe(!isHeard || (command === "import" && reached));
        }
        // A full disk after the placement hides its success, until the command is repeated.
        const hides = fault === "a full disk" && command === "import";
        expect([isDone ? ORDERS : before, hides && ORDERS], label).toContain(await state());
        expect(fs.readdirSync(folder), label).toEqual(files);

        const again = await store.orders([command, file]);
        expect(again, label).toMatchObject({ status: 0, stderr: "" });
        expect(await state(), label).toBe(ORDERS);
        expect(fs.readdirSync(folder), label).toEqual(files);
        if (isOver) expect(step).toBeGreaterThan(command === "import" ? 12 : 3);
      }
    },
  );
});

it("a signal ends a command as typed at once, although nobody reads its output or writes its input", async () => {
  const unread = new StoreFolder();
  await unread.ordersJson(["import", "-"], linesOf(15_000));
  const fifos = ["out", "in"].map((name) => join(folder, name)) as [string, string];
  execFileSync("mkfifo", fifos);
  const ended = async (signal: NodeJS.Signals, ...[command, file]: readonly string[]) => {
    const words = ["orders", command!, ...(file === undefined ? [] : [file])];
    const line = ["src/operator/main.js", ...words, "--persist-to", unread.path];
    const child = spawn(process.execPath, line);
    const [stderr, exit] = [readText(child.stderr), once(child, "exit")];
    const output = file === fifos[0] ? fs.createReadStream(file) : child.stdout;
    // Takes the first part of the output, and no more.
    if (command === "export") await once(output, "readable");
    else await vi.waitUntil(() => listensToSignals(child), PATIENCE);
    child.kill(signal);
    await exit;
    output.destroy();
    return [child.signalCode, await stderr];
  };
  const cases = [
    ["SIGINT", "the export was complete", "export"],
    ["SIGHUP", "the export was complete", "export", fifos[0]],
    ["SIGTERM", "the file was read: nothing was sent", "import", fifos[1]],
  ] as const;
  const outcomes = cases.map(([signal, , ...words]) => ended(signal, ...words));
  expect(await Promise.all(outcomes)).toEqual(
    cases.map(([signal, what]) => [signal, `error: ended by ${signal} before ${what}\n`]),
  );
});

/** Returns whether a process has a handler for SIGHUP, which ends other processes at once. */
function listensToSignals({ pid }: ChildProcess): boolean {
  const caught = /SigCgt:\s*(\w+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return (BigInt(`0x${caught ?? 0}`) & 1n) === 1n;
}

it("a full disk during an import blames no line", async () => {
  await store.make();
  const spy = vi.spyOn(StatementSync.prototype, "run").mockImplementation(() => {
    throw new Error("database or disk is full");
  });
  const { status, stderr } = await store.orders(["import", "-"], ORDERS);
  expect([status, stderr]).toEqual([1, expect.stringContaining("make room, or set SQLITE_TMPDIR")]);
  expect(stderr).not.toMatch(/line \d/);
  spy.mockRestore();
  expect(await store.ordersJson(["import", "-"], ORDERS)).toMatchObject({ imported: 60 });
});
