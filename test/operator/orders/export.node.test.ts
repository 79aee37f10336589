import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import * as local from "../../../src/operator/database/local.ts";
import * as localStore from "../../../src/operator/database/local-store.ts";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { shortenPauses } from "../deploy/faults.ts";
import { runInProcess } from "../in-process.ts";
import { type MemoryStore, openMemoryStore } from "./memory-store.ts";

/** The number of orders in the store: two full pages of an export, and a last page with one. */
const STORED = 15_001;
const GAVE_UP = expect.stringContaining(
  "the orders changed during the export: run the same command",
);
const WARNING = /^warning: orders changed during the export[^]*--one-moment/m;

let store: MemoryStore;
let folder: string;
let file: string;
beforeAll(shortenPauses);
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
  file = join(folder, "orders.ndjson");
  store = openMemoryStore();
  store.sqlite.exec(`
    WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id + 1 < ${STORED})
    INSERT INTO orders (id) SELECT id FROM n`);
  vi.spyOn(localStore, "isStore").mockReturnValue(true);
  const database = { ...store, close: async () => {} };
  vi.spyOn(local, "openLocalDatabase").mockResolvedValue(database);
});
afterEach(async () => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  await store.close();
  rmSync(folder, { recursive: true });
});

function runExport(...args: readonly string[]) {
  return runInProcess(ordersProgram(), ["export", ...args]);
}

/** If `isDue` returns true for a page, changes the first and last order before the page is read. */
function changeBefore(isDue: (page: number) => boolean): void {
  let page = 0;
  store.beforeQuery = () => {
    page += 1;
    if (!isDue(page)) return;
    store.sqlite.exec(`UPDATE orders SET quantity = ${page} WHERE id IN (0, ${STORED - 1})`);
  };
}

/** Expects an export to be complete. Returns the quantities of the first and the last order. */
function quantities(text: string): unknown[] {
  const lines = text.trimEnd().split("\n");
  expect(lines).toHaveLength(STORED);
  return [lines[0], lines.at(-1)].map((line) => JSON.parse(line ?? "").quantity);
}

describe("an export during which orders change", () => {
  it.each([
    [1, [1, 1], /^(?![^]*warning)/],
    [2, [undefined, 2], WARNING],
    [3, [undefined, 3], WARNING],
  ])(
    "is warned of unless the change came before its first page (%i)",
    async (page, expected, stderr) => {
      changeBefore((read) => read === page);
      expect(await runExport(file)).toEqual({
        status: 0,
        stdout: `Exported 15,001 orders to ${file}.\n`,
        stderr: expect.stringMatching(stderr),
      });
      expect(quantities(readFileSync(file, "utf8"))).toEqual(expected);
    },
  );

  it("starts over with --one-moment, which requires a consistent snapshot", async () => {
    changeBefore((page) => page === 2 || page === 5);
    const outcome = await runExport(file, "--one-moment", "--json");
    expect(outcome).toEqual({ status: 0, stdout: '{"exported":15001}\n', stderr: "" });
    expect(quantities(readFileSync(file, "utf8"))).toEqual([5, 5]);
    expect(readdirSync(folder)).toEqual(["orders.ndjson"]);
  });

  it("with --one-moment to standard output fails, because that cannot be taken back", async () => {
    changeBefore((page) => page === 3);
    expect(await runExport("--one-moment")).toMatchObject({ status: 1, stderr: GAVE_UP });
    expect(await runExport("/dev/null", "--one-moment")).toMatchObject({ status: 0 });
  });

  it("with --one-moment fails if orders never stop changing, and keeps the earlier file", async () => {
    changeBefore(() => true);
    writeFileSync(file, "earlier");
    expect(await runExport(file, "--one-moment")).toMatchObject({ status: 1, stderr: GAVE_UP });
    expect(readFileSync(file, "utf8")).toBe("earlier");
    expect(readdirSync(folder)).toEqual(["orders.ndjson"]);
  });
});

it("two exports to one file at the same time leave a whole file", async () => {
  const outcomes = await Promise.all([runExport(file), runExport(file)]);
  expect(outcomes.map(({ status }) => status)).toEqual([0, 0]);
  quantities(readFileSync(file, "utf8"));
  expect(readdirSync(folder)).toEqual(["orders.ndjson"]);
});

it.each([
  ["of an empty store", "DELETE FROM orders", 0],
  [
    "whose last page is full and ends with the largest id",
    `DELETE FROM orders WHERE id IN (0, 1); INSERT INTO orders (id) VALUES (9223372036854775807)`,
    STORED - 1,
  ],
])("an export %s has each order once", async (_, change, count) => {
  store.sqlite.exec(change);
  const target = join(folder, "target.ndjson");
  writeFileSync(target, "earlier");
  chmodSync(target, 0o640);
  symlinkSync(target, file);
  const outcome = await runExport(file, "--one-moment", "--json");
  expect(outcome).toEqual({ status: 0, stdout: `{"exported":${count}}\n`, stderr: "" });
  const written = readFileSync(target, "utf8");
  expect(written.match(/\n/g) ?? [], "in the target of a symbolic link").toHaveLength(count);
  expect(statSync(target).mode & 0o777).toBe(0o640);
});
