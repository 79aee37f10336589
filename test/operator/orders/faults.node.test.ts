import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text as readText } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { IMPORT_SIZES } from "../../../src/operator/orders/placement.ts";
import { interrupt } from "../deploy/faults.ts";
import { StoreFolder } from "../store-folder.ts";

const ORDERS = Array.from({ length: 60 }, (_, id) => `{"id":${id},"status":"pending"}\n`).join("");
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const REAL_SIZES = { ...IMPORT_SIZES };
const folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
const stores = { empty: new StoreFolder(), full: new StoreFolder() };
let store: StoreFolder;
beforeAll(async () => {
  await stores.empty.make();
  await stores.full.ordersJson(["import", "-"], ORDERS);
});
beforeEach(() => {
  store = new StoreFolder();
  Object.assign(IMPORT_SIZES, { partCharacters: 1_000 });
});
afterEach(() => {
  vi.restoreAllMocks();
  Object.assign(IMPORT_SIZES, REAL_SIZES);
  store.remove();
});
afterAll(() => {
  for (const each of Object.values(stores)) each.remove();
  rmSync(folder, { recursive: true });
});

const exportAll = async () => (await store.orders(["export"])).stdout;

/** Calls `fault` before a statement on any SQLite file. Returns the number of statements so far. */
function atStatement(number: number, fault: () => void): () => number {
  const { prototype } = DatabaseSync;
  const prepare = Reflect.get(prototype, "prepare");
  let count = 0;
  vi.spyOn(prototype, "prepare").mockImplementation(function (this: DatabaseSync, query) {
    count += 1;
    if (count === number) fault();
    return Reflect.apply(prepare, this, [query]);
  });
  return () => count;
}

/** For each command, the store before it, its file, what the file has before, and what it changes. */
const COMMANDS = [
  ["import", stores.empty, "in.ndjson", ORDERS, "", exportAll],
  [
    "export",
    stores.full,
    "out.ndjson",
    "earlier",
    "earlier",
    async () => readFileSync(join(folder, "out.ndjson"), "utf8"),
  ],
] as const;

describe.each(COMMANDS)("orders %s", (command, template, name, text, before, state) => {
  it.each(["a signal", "a full disk"])(
    "with %s before any statement is done or undone, and the same command again finishes",
    async (fault) => {
      const file = join(folder, name);
      for (let step = 1, isOver = false; !isOver; step += 1) {
        store.remove();
        cpSync(template.path, store.path, { recursive: true });
        writeFileSync(file, text);
        const files = readdirSync(folder);
        const count = atStatement(step, () => {
          if (fault === "a signal") interrupt(step);
          else throw new Error("database or disk is full");
        });
        const { status, stdout, stderr } = await store.orders([command, file]);
        isOver = count() < step;
        vi.restoreAllMocks();
        const label = `statement ${step}: ${stderr}`;
        const isDone = status === 0;
        if (isOver) expect(isDone, label).toBe(true);
        expect(stdout !== "", label).toBe(isDone);
        if (!isDone) {
          expect(stderr, label).toMatch(/^error: (?!.*line \d).*\n$/);
          if (fault === "a signal")
            expect(stderr).toContain(`ended by ${SIGNALS[step % 3]} before`);
        }
        // A full disk after the placement hides its success, until the command is repeated.
        const hides = fault === "a full disk" && command === "import";
        expect([isDone ? ORDERS : before, hides && ORDERS], label).toContain(await state());
        expect(readdirSync(folder), label).toEqual(files);

        const again = await store.orders([command, file]);
        expect(again, label).toMatchObject({ status: 0, stderr: "" });
        expect(await state(), label).toBe(ORDERS);
        expect(readdirSync(folder), label).toEqual(files);
        if (isOver) expect(step).toBeGreaterThan(command === "import" ? 12 : 3);
      }
    },
  );
});

it.each(SIGNALS)(
  "%s ends an import that reads, and an export or none of it, as typed",
  async (signal) => {
    cpSync(stores.full.path, store.path, { recursive: true });
    const out = join(folder, "typed.ndjson");
    const files = readdirSync(folder);
    for (const [words, unfinished] of [
      [["import", "-"], "the file was read: nothing was sent"],
      [["export", out], "the export was complete"],
    ] as const) {
      const line = ["src/operator/main.ts", "orders", ...words, "--persist-to", store.path];
      const child = spawn(process.execPath, line);
      child.stdin.on("error", () => {}).write('{"id":1,"petId":7}\n');
      const closed = once(child, "close");
      const stderr = readText(child.stderr);
      child.stdout.resume();
      const isReady = () => child.exitCode !== null || listensToSignals(child);
      await vi.waitUntil(isReady, { interval: 1, timeout: 30_000 });
      child.kill(signal);
      await closed;
      const isExported = child.exitCode === 0 && words[0] === "export";
      const error = isExported ? "" : `error: ended by ${signal} before ${unfinished}\n`;
      expect([child.exitCode, await stderr]).toEqual([isExported ? 0 : 1, error]);
      if (isExported) expect(readFileSync(out, "utf8")).toBe(ORDERS);
      rmSync(out, { force: true });
      expect(readdirSync(folder)).toEqual(files);
    }
    expect(await exportAll()).toBe(ORDERS);
  },
);

/** Returns whether a process has a handler for SIGHUP, which ends other processes at once. */
function listensToSignals({ pid }: ChildProcess): boolean {
  const caught = /SigCgt:\s*(\w+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return (BigInt(`0x${caught ?? 0}`) & 1n) === 1n;
}
