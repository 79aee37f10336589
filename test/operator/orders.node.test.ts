import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { ordersProgram } from "../../src/operator/orders/program.ts";
import { type Outcome, runCommand } from "./deploy/run-command.ts";
import { failure, runInProcess } from "./in-process.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
const other = new StoreFolder();
const folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
afterAll(() => {
  for (const each of [store, other]) each.remove();
  rmSync(folder, { recursive: true });
});

const file = (name: string) => join(folder, name);

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
  it("copy orders from one store to another byte for byte, also as gzip, and count them", async () => {
    writeFileSync(file("shuffled.json"), `[\n${LINES.toReversed().join(",\n")}\n]\n`);
    const counts = { imported: LINES.length };
    expect(await store.ordersJson(["import", file("shuffled.json")])).toEqual(counts);
    const whole = { status: 0, stderr: "", stdout: EXPORT };
    expect(await store.orders(["export"])).toEqual(whole);
    expect(await other.ordersJson(["import", "-"], EXPORT)).toEqual(counts);
    for (const name of ["again.ndjson", "again.ndjson.gz"]) {
      const exported = await other.ordersJson(["export", file(name)]);
      expect(exported).toEqual({ exported: LINES.length });
      const bytes = readFileSync(file(name));
      const text = name.endsWith("gz") ? gunzipSync(bytes) : bytes;
      expect(text.toString() === EXPORT, name).toBe(true);
    }
  });

  it("know gzip by its bytes, also if they come one by one", async () => {
    const zipped = gzipSync('{"id":1}\n');
    writeFileSync(file("zipped.txt"), zipped);
    writeFileSync(file("plain.gz"), '{"id":1}\n');
    writeFileSync(file("cut.gz"), zipped.subarray(0, -6));
    for (const name of ["zipped.txt", "plain.gz"]) {
      expect(await store.ordersJson(["import", file(name)])).toEqual({ imported: 1 });
    }
    expect(await store.orders(["import", file("cut.gz")])).toEqual(failure("not whole gzip"));
    const bytes = Readable.from(Array.from(zipped, (byte) => Buffer.of(byte)));
    const line = ["import", "-", "--json", "--persist-to", store.path];
    const outcome = { status: 0, stdout: '{"imported":1}\n', stderr: "" };
    expect(await runInProcess(ordersProgram(), line, bytes)).toEqual(outcome);
  });

  it("refuse a file with a bad line and change nothing", async () => {
    const { status, stdout, stderr } = await other.orders(
      ["import", "-", "--json"],
      '{"id":5,"petId":1}\n{"id":0.5}\n',
    );
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^error: line 2: id: expected an integer .*, got 0\.5\n$/);
    expect((await other.orders(["export"])).stdout === EXPORT).toBe(true);
  });

  it.each([
    ["import .", 1, "is a folder"],
    ["export .", 1, "is a folder"],
    ["export - --json", 2, "--json needs a FILE"],
  ])("refuse %s", async (line, status, reason) => {
    const outcome = await other.orders(line.split(" "));
    expect(outcome).toEqual(failure(reason, status));
    expect(outcome.stderr).toMatch(/^error: .*\n$/);
  });

  it("take no folder and no closed standard input for an empty file", async () => {
    const refused = failure("standard input is closed, or a folder");
    expect(await Promise.all([shell("< ."), shell("<&-")])).toEqual([refused, refused]);
  });
});

/** Imports standard input in a shell. */
function shell(input: string): Promise<Outcome> {
  const command = '"$NODE" src/operator/main.js orders import - --json --persist-to "$STORE"';
  const env = { NODE: process.execPath, STORE: store.path };
  return runCommand("bash", ["-c", `${command} ${input}`], { env });
}
