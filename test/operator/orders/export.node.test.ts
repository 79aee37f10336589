import * as fs from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { testFolder } from "../../support/test-folder.ts";
import { shortenPauses } from "../deploy/faults.ts";
import { failure } from "../commands.ts";
import { beforeStatements, StoreFolder } from "../store-folder.ts";

/** The number of orders in the store: three pages of an export. */
const STORED = 15_001;
const GAVE_UP = "the orders changed during the export, so it would not be of one moment";

const store = new StoreFolder();
let sqlite: DatabaseSync;
let folder: string;
let file: string;
beforeAll(async () => {
  await store.make();
  sqlite = new DatabaseSync(databaseFile(store.path, "orders"));
});
beforeEach(() => {
  shortenPauses();
  folder = testFolder();
  file = join(folder, "orders.ndjson");
  sqlite.exec(`
    DELETE FROM orders;
    WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id + 1 < ${STORED})
    INSERT INTO orders (id) SELECT id FROM n`);
});
afterEach(() => void vi.restoreAllMocks());
afterAll(() => sqlite.close());

const runExport = (...args: readonly string[]) => store.orders(["export", ...args]);

/** Changes the first and last order before each page for which `isDue` returns true. */
function changeBefore(isDue: (page: number) => boolean): void {
  let page = 0;
  beforeStatements((query) => {
    if (!query.includes('from "order_list"') || !isDue(++page)) return;
    sqlite.exec(`UPDATE orders SET quantity = ${page} WHERE id IN (0, ${STORED - 1})`);
  });
}

/** Expects the file to be complete. Returns the quantities of the first and the last order. */
function quantities(): unknown[] {
  const lines = fs.readFileSync(file, "utf8").trimEnd().split("\n");
  expect(lines).toHaveLength(STORED);
  expect(fs.readdirSync(folder)).toEqual(["orders.ndjson"]);
  return [lines[0], lines.at(-1)].map((line) => JSON.parse(line ?? "").quantity);
}

it.each([
  [1, [1, 1], /^$/],
  [3, [undefined, 3], /^warning: orders changed[^]*--one-moment/],
])("warns of a change of orders after the first page (%i)", async (page, found, warning) => {
  changeBefore((read) => read === page);
  const outcome = await runExport(file);
  expect(outcome).toMatchObject({ status: 0, stderr: expect.stringMatching(warning) });
  expect(quantities()).toEqual(found);
});

it("with --one-moment starts a file over, and after five attempts fails and keeps the earlier file", async () => {
  changeBefore((page) => page === 2 || page === 5);
  const outcome = await runExport(file, "--one-moment", "--json");
  expect(outcome).toEqual({ status: 0, stdout: '{"exported":15001}\n', stderr: "" });
  expect(quantities()).toEqual([5, 5]);
  vi.restoreAllMocks();
  let pages = 0;
  changeBefore((page) => (pages = page) > 0);
  fs.writeFileSync(file, "earlier");
  expect(await runExport(file, "--one-moment")).toEqual(failure(GAVE_UP));
  expect([pages, fs.readFileSync(file, "utf8")]).toEqual([10, "earlier"]);
  expect(fs.readdirSync(folder)).toEqual(["orders.ndjson"]);
});

it.each(["--one-moment", "--all"])(
  "with %s does not start standard output over, because it cannot be taken back",
  async (option) => {
    changeBefore((page) => page === 3);
    const { status, stderr } = await runExport(option);
    expect([status, stderr]).toEqual([1, expect.stringContaining(GAVE_UP)]);
  },
);

it("two exports to one file at the same time leave a whole file", async () => {
  const outcomes = await Promise.all([runExport(file), runExport(file)]);
  expect(outcomes.map(({ status }) => status)).toEqual([0, 0]);
  expect(quantities()).toEqual([undefined, undefined]);
});

it("replaces the target of a link and keeps its mode, also if the store is empty", async () => {
  sqlite.exec("DELETE FROM orders");
  const target = join(folder, "target.ndjson");
  fs.writeFileSync(target, "earlier");
  fs.chmodSync(target, 0o640);
  fs.symlinkSync(target, file);
  const outcome = await runExport(file, "--one-moment", "--json");
  expect(outcome).toEqual({ status: 0, stdout: '{"exported":0}\n', stderr: "" });
  expect(fs.readFileSync(target, "utf8")).toBe("");
  expect(fs.statSync(target).mode & 0o777).toBe(0o640);
});
