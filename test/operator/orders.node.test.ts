import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { OpenStore } from "./store-folder.ts";

const store = new OpenStore();
const other = new OpenStore();
const files = mkdtempSync(join(tmpdir(), "store-orders-test-"));
afterAll(async () => {
  await Promise.all([store.close(), other.close()]);
  rmSync(files, { recursive: true });
});

const file = (name: string) => join(files, name);

/** Orders whose ids range from the smallest to the largest int64: one full page of an export. */
const LINES = [
  '{"id":-9223372036854775808,"petId":9223372036854775807,"quantity":-9223372036854775808,"shipDate":"2026-11-20T08:30:00.000Z","complete":false,"status":"shipped"}',
  '{"id":-9007199254740993,"complete":true,"status":"pending"}',
  ...Array.from({ length: 7_496 }, (_, id) => `{"id":${id},"status":"pending"}`),
  '{"id":9223372036854775806,"petId":9007199254740993,"status":"pending"}',
  '{"id":9223372036854775807,"status":"pending"}',
];
const EXPORT = LINES.map((line) => `${line}\n`).join("");

describe("orders import and export", () => {
  it("copy orders from one store to another byte for byte", async () => {
    writeFileSync(file("shuffled.json"), `[\n${LINES.toReversed().join(",\n")}\n]\n`);
    expect(await store.ordersJson(["import", file("shuffled.json")])).toEqual({
      imported: LINES.length,
    });
    const { status, stdout, stderr } = await store.orders(["export"]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout === EXPORT).toBe(true);

    expect(await other.ordersJson(["import", "-"], stdout)).toEqual({ imported: LINES.length });
    expect(await other.ordersJson(["export", file("again.ndjson")])).toEqual({
      exported: LINES.length,
    });
    expect(readFileSync(file("again.ndjson"), "utf8") === EXPORT).toBe(true);
    expect(readdirSync(files).toSorted()).toEqual(["again.ndjson", "shuffled.json"]);
  });

  it("print the number of orders", async () => {
    const imported = await other.orders(["import", "-"], '\n{"id":5}\n\n{"id":5}\n');
    expect(imported).toEqual({
      status: 0,
      stdout: "Imported 1 order: 0 new, 0 replaced, 0 shipped, 1 unchanged.\n",
      stderr: "",
    });
    const exported = await other.orders(["export", "/dev/null"]);
    expect(exported.stdout).toBe(
      `Exported ${LINES.length.toLocaleString("en")} orders to /dev/null.\n`,
    );
  });

  it("refuse a file with an invalid line and change nothing", async () => {
    const outcome = await other.orders(
      ["import", "-", "--json"],
      '{"id":5,"petId":1}\n{"id":0.5}\n',
    );
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toMatch(/^error: line 2: id: expected an integer .*, got 0\.5\n$/);
    expect((await other.orders(["export"])).stdout === EXPORT).toBe(true);
  });

  it.each([
    ["import", "no/such/file", "no/such/file does not exist: check the path"],
    ["import", ".", "is a folder"],
    ["export", ".", "is a folder"],
    ["export", "no/such/folder/file", "no/such/folder/file does not exist: check the path"],
  ])("refuse %s %s", async (command, path, reason) => {
    const outcome = await other.orders([command, path]);
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toMatch(/^error: .*\n$/);
    expect(outcome.stderr).toContain(reason);
  });
});
