import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as local from "../../../src/operator/database/local.ts";
import * as localStore from "../../../src/operator/database/local-store.ts";
import { exportToFile, exportToStdout } from "../../../src/operator/orders/export.ts";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { runInProcess } from "../in-process.ts";
import { type MemoryStore, openMemoryStore } from "./memory-store.ts";

/** The number of orders in the store, which an export reads in three pages. */
const STORED = 20_000;

let store: MemoryStore;
let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
  file = join(folder, "orders.ndjson");
  store = openMemoryStore();
  store.sqlite.exec(`
    WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id + 1 < ${STORED})
    INSERT INTO orders (id) SELECT id FROM n`);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
  vi.restoreAllMocks();
});

/**
 * Changes the first and the last order before each page of the export for which `isDue` returns
 * true. Pages are counted from 1.
 */
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

async function captureStdout(work: () => Promise<unknown>): Promise<string> {
  let written = "";
  vi.spyOn(process.stdout, "write").mockImplementation(((part: unknown, ...rest: unknown[]) => {
    written += String(part);
    (rest.at(-1) as (() => void) | undefined)?.();
    return true;
  }) as typeof process.stdout.write);
  await work();
  vi.restoreAllMocks();
  return written;
}

describe("an export during which orders change", () => {
  it.each([2, 3])("is no snapshot if the change was before page %i", async (changedPage) => {
    changeBefore((page) => page === changedPage);
    const exported = await exportToFile(store, file, { oneMoment: false });
    expect(exported).toEqual({ count: STORED, isOneMoment: false });
    expect(quantities(readFileSync(file, "utf8"))).toEqual([undefined, changedPage]);
  });

  it.each([
    [2, /^warning: orders changed during the export[^]*--one-moment/m],
    [1, /^(?![^]*warning)/],
  ])("is warned of on stderr if the change came before page %i", async (changedPage, warning) => {
    changeBefore((page) => page === changedPage);
    const database = { ...store, isNew: false, close: async () => {} };
    vi.spyOn(localStore, "isStore").mockReturnValueOnce(true);
    vi.spyOn(local, "openLocalDatabase").mockResolvedValueOnce(database);
    const { status, stdout, stderr } = await runInProcess(ordersProgram(), ["export", file]);
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: `Exported ${STORED.toLocaleString("en")} orders to ${file}.\n`,
    });
    expect(stderr).toMatch(warning);
  });

  it("is a consistent snapshot if the change was before its first page", async () => {
    changeBefore((page) => page === 1);
    const exported = await exportToFile(store, file, { oneMoment: false });
    expect(exported).toEqual({ count: STORED, isOneMoment: true });
  });

  it("starts over with oneMoment, which requires a consistent snapshot", async () => {
    changeBefore((page) => page === 2 || page === 5);
    const exported = await exportToFile(store, file, { oneMoment: true });
    expect(exported).toEqual({ count: STORED, isOneMoment: true });
    expect(quantities(readFileSync(file, "utf8"))).toEqual([5, 5]);
    expect(readdirSync(folder)).toEqual(["orders.ndjson"]);
  });

  it("with oneMoment writes to standard output only after a consistent snapshot", async () => {
    changeBefore((page) => page === 3);
    const written = await captureStdout(() => exportToStdout(store, { oneMoment: true }));
    expect(quantities(written)).toEqual([3, 3]);
  });

  it("with oneMoment fails if orders never stop changing, and keeps the earlier file", async () => {
    changeBefore(() => true);
    writeFileSync(file, "earlier");
    const refusal = "changed during each of 5 attempts, so nothing was exported: try again when";
    await expect(exportToFile(store, file, { oneMoment: true })).rejects.toThrow(refusal);
    expect(readFileSync(file, "utf8")).toBe("earlier");
    expect(readdirSync(folder)).toEqual(["orders.ndjson"]);
    const written = await captureStdout(() =>
      expect(exportToStdout(store, { oneMoment: true })).rejects.toThrow(refusal),
    );
    expect(written).toBe("");
  });
});

it("an export of an empty store is empty and a consistent snapshot", async () => {
  store.sqlite.exec("DELETE FROM orders");
  const exported = await exportToFile(store, file, { oneMoment: true });
  expect(exported).toEqual({ count: 0, isOneMoment: true });
  expect(readFileSync(file, "utf8")).toBe("");
});
