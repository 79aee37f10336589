import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text as readText } from "node:stream/consumers";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { PATIENCE } from "../../support/patience.ts";
import { testFolder } from "../../support/test-folder.ts";
import { interrupt, shortenPauses } from "../deploy/faults.ts";
import { beforeStatements, StoreFolder } from "../store-folder.ts";
import { setImportSizes } from "./import-sizes.ts";

const ORDERS = Array.from({ length: 60 }, (_, id) => `{"id":${id},"status":"pending"}\n`).join("");
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const [empty, full] = [new StoreFolder(), new StoreFolder()];
/** A store of the present test: a copy of another one, or a large one. */
let store: StoreFolder;
let folder: string;
setImportSizes({ partBytes: 1_000 });
beforeAll(async () => {
  await empty.make();
  await full.ordersJson(["import", "-"], ORDERS);
});
beforeEach(() => {
  folder = testFolder();
  shortenPauses();
});
afterEach(() => void vi.restoreAllMocks());

const exported = async () => (await store.orders(["export"])).stdout;
const written = async () => fs.readFileSync(join(folder, "out.ndjson"), "utf8");

describe.each([
  ["import", "any order was placed. ", empty, "in.ndjson", ORDERS, "", exported],
  ["export", "the export was complete\n", full, "out.ndjson", "earlier", "earlier", written],
] as const)("orders %s", (command, what, template, name, text, before, state) => {
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
        expect(stdout !== "", label).toBe(isDone);
        if (!isDone) expect(stderr, label).toMatch(/^error: (?!.*line \d).*\n$/);
        if (fault === "a signal") {
          if (!isDone) expect(stderr).toContain(`ended by ${SIGNALS[step % 3]} before ${what}`);
          const placing = /order_segments|SELECT 1 FROM orders/;
          const reached = queries.slice(0, step).some((query) => placing.test(query));
          expect(isDone, label).toBe(!isHeard || (command === "import" && reached));
        }
        // A full disk after the placement hides its success, until the command is repeated.
        const hides = fault === "a full disk" && command === "import";
        expect([isDone ? ORDERS : before, hides && ORDERS], label).toContain(await state());
        expect(fs.readdirSync(folder), label).toEqual(files);

        const again = await store.orders([command, file]);
        const found = [again.status, again.stderr, await state(), fs.readdirSync(folder)];
        expect(found, label).toEqual([0, "", ORDERS, files]);
        if (isOver) expect(step).toBeGreaterThan(command === "import" ? 12 : 3);
      }
    },
  );
});

it("a signal ends a command as typed at once, although nobody writes its input", async () => {
  const input = join(folder, "in");
  execFileSync("mkfifo", [input]);
  const line = ["src/operator/main.js", "orders", "import", input, "--persist-to", empty.path];
  const child = spawn(process.execPath, line);
  const [stderr, exit] = [readText(child.stderr), once(child, "exit")];
  const status = () => fs.readFileSync(`/proc/${child.pid}/status`, "utf8");
  // Waits for its handler of signals: without one, it would be ended without a message.
  await vi.waitUntil(() => /SigCgt:\s*\w*[13579bdf]$/m.test(status()), PATIENCE);
  child.kill("SIGTERM");
  await exit;
  expect(child.signalCode).toBe("SIGTERM");
  expect(await stderr).toBe("error: ended by SIGTERM before the file was read: nothing was sent\n");
});

it("two imports of one file at the same time both succeed", async () => {
  const importing = () => empty.ordersJson(["import", "-"], ORDERS);
  const both = await Promise.all([importing(), importing()]);
  expect(both).toMatchObject([{ imported: 60 }, { imported: 60 }]);
});

describe("an export", () => {
  /** The number of orders in a large store: three pages of an export. */
  const STORED = 15_001;
  let file: string;
  beforeEach(async () => {
    file = join(folder, "orders.ndjson");
    fs.writeFileSync(file, "earlier");
    store = new StoreFolder();
    await store.make();
    exec(`
      WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id + 1 < ${STORED})
      INSERT INTO orders (id) SELECT id FROM n`);
  });

  function exec(sql: string): void {
    using sqlite = new DatabaseSync(databaseFile(store.path, "orders"));
    sqlite.exec(sql);
  }

  const runExport = (...args: readonly string[]) => store.orders(["export", ...args]);

  /** Expects the file to be complete, and these quantities of its first and last order. */
  function expectQuantities(...quantities: unknown[]): void {
    const lines = fs.readFileSync(file, "utf8").trimEnd().split("\n");
    expect(lines).toHaveLength(STORED);
    expect([lines[0], lines.at(-1)].map((line) => JSON.parse(line!).quantity)).toEqual(quantities);
    expect(fs.readdirSync(folder)).toEqual(["orders.ndjson"]);
  }

  const GAVE_UP =
    "error: the orders changed during the export, so it would not be of one moment: run the same command again\n";
  const WARNING =
    "warning: orders changed during the export, so it mixes the store before and after those changes. Add --one-moment to export the store as it was at one moment.\n";
  const from = (page: number) => Array.from({ length: 20 }, (_, index) => page + index);
  it.each([
    ["FILE", [1], 4, "", [1, 1]],
    ["FILE", [3], 4, WARNING, [undefined, 3]],
    ["FILE --one-moment", [2, 5], 9, "", [5, 5]],
    ["FILE --one-moment", from(2), 10, GAVE_UP, 0],
    // Standard output cannot be taken back. The last page has the cancelled orders.
    ["--one-moment", from(3), 3, GAVE_UP, 15_000],
    ["--all", from(5), 5, GAVE_UP, STORED],
  ])("%s with changes before the pages %j reads %i", async (words, pages, read, message, found) => {
    let page = 0;
    beforeStatements((query) => {
      if (!query.includes('from "order_list"') || !pages.includes(++page)) return;
      exec(`UPDATE orders SET quantity = ${page} WHERE id IN (0, ${STORED - 1})`);
    });
    const { status, stdout, stderr } = await runExport(...words.replace("FILE", file).split(" "));
    expect([status, stderr, page]).toEqual([typeof found === "number" ? 1 : 0, message, read]);
    if (typeof found !== "number") {
      expect(stdout).toBe(`Exported 15,001 orders to ${file}.\n`);
      return expectQuantities(...found);
    }
    expect(stdout.split("\n")).toHaveLength(found + 1);
    expect(fs.readFileSync(file, "utf8")).toBe("earlier");
    expect(fs.readdirSync(folder)).toEqual(["orders.ndjson"]);
  });

  it("two exports to one file at the same time leave a whole file", async () => {
    const outcomes = await Promise.all([runExport(file), runExport(file)]);
    expect(outcomes.map(({ status }) => status)).toEqual([0, 0]);
    expectQuantities(undefined, undefined);
  });

  it("replaces the target of a link and keeps its mode, also if the store is empty", async () => {
    exec("DELETE FROM orders");
    const target = join(folder, "target.ndjson");
    fs.renameSync(file, target);
    fs.chmodSync(target, 0o640);
    fs.symlinkSync(target, file);
    const outcome = await runExport(file, "--one-moment", "--json");
    expect(outcome).toEqual({ status: 0, stdout: '{"exported":0}\n', stderr: "" });
    expect(await runExport("/dev/null")).toMatchObject({ status: 0, stderr: "" });
    expect(fs.readFileSync(target, "utf8")).toBe("");
    expect(fs.statSync(target).mode & 0o777).toBe(0o640);
  });
});
