import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ordersProgram } from "../../src/operator/orders/program.ts";
import { testFolder } from "../support/test-folder.ts";
import { failure, type Outcome, runCommand, runInProcess } from "./commands.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
const other = new StoreFolder();
const folder = testFolder();
afterEach(() => vi.unstubAllEnvs());

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
    await store.ordersJson(["import", "-"], `${LINES[1]}\n{"id":0,"petId":1}\n`);
    const counts = { imported: LINES.length, new: LINES.length - 2, replaced: 1, shipped: 0 };
    const imported = await store.ordersJson(["import", file("shuffled.json")]);
    expect(imported).toEqual({ ...counts, unchanged: 1 });
    for (const name of ["all.ndjson", "all.ndjson.gz"]) {
      const exported = await store.ordersJson(["export", file(name)]);
      expect(exported).toEqual({ exported: LINES.length });
    }
    expect(readFileSync(file("all.ndjson"), "utf8") === EXPORT).toBe(true);
    expect(gunzipSync(readFileSync(file("all.ndjson.gz"))).toString() === EXPORT).toBe(true);
    await other.ordersJson(["import", file("all.ndjson.gz")]);
    expect(await other.orders(["export"])).toEqual({ status: 0, stderr: "", stdout: EXPORT });
  });

  it("know gzip by its bytes, also if they come one by one", async () => {
    const zipped = gzipSync('{"id":1}\n');
    writeFileSync(file("zipped.txt"), zipped);
    writeFileSync(file("plain.gz"), '{"id":1}\n');
    writeFileSync(file("cut.gz"), zipped.subarray(0, -6));
    for (const name of ["zipped.txt", "plain.gz"]) {
      expect(await store.ordersJson(["import", file(name)])).toMatchObject({ imported: 1 });
    }
    expect(await store.orders(["import", file("cut.gz")])).toEqual(failure("not whole gzip"));
    const bytes = Readable.from(Array.from(zipped, (byte) => Buffer.of(byte)));
    const line = ["import", "-", "--json", "--persist-to", store.path];
    const outcome = { status: 0, stdout: expect.stringContaining('{"imported":1,'), stderr: "" };
    expect(await runInProcess(ordersProgram(), line, bytes)).toEqual(outcome);
  });

  it("refuse a file with bad lines, list the first ten and count all, and change nothing", async () => {
    const bad = (input: string) => other.orders(["import", "-", "--json"], input);
    const one = await bad('{"id":5,"petId":1}\n{"id":0.5}\n');
    expect(one).toEqual(failure("error: line 2: id: expected an integer"));
    expect(one.stderr).toMatch(/^error: .*, got 0\.5\n$/);
    // A terminal would obey what stands in the file.
    const { stderr: escaped } = await bad('\u001b]52;c;eA==\u0007\n{"id":"\u202e"}\n');
    expect(escaped).toContain('got "\\u{202e}"');
    expect(escaped).toContain("got \\u{1b}]52;c;eA==\\u{7}\n");
    const lines = Array.from({ length: 12 }, (_, index) => `{"id":${index},"petId":null}`);
    const ten = await bad(`{"id":1}\n\n${lines.join("\n")}\n{"id":2}`);
    const listed = lines.slice(0, 10).map((_, index) => {
      return `  line ${index + 3}: petId: null is no value, leave the field out\n`;
    });
    const title = "error: 12 orders are bad: nothing was imported. The first 10:\n";
    expect(ten).toEqual({ status: 1, stdout: "", stderr: title + listed.join("") });
    const ids = Array.from({ length: 12 }, (_, index) => 9_012 - index);
    const importAll = (status: string) => {
      const all = ids.map((each) => `{"id":${each},"status":"${status}"}\n`);
      return store.orders(["import", "-"], all.join(""));
    };
    await importAll("shipped");
    const turned = ids.slice(0, 10).map((id, index) => {
      return `  line ${index + 1}: order ${id} has shipped, which cannot be turned back\n`;
    });
    const refused = await importAll("pending");
    expect(refused).toEqual({ status: 1, stdout: "", stderr: title + turned.join("") });
    const both = "  element 2: unknown field.*\n  element 3: the file ends before";
    expect((await bad('[{"id":1},{"id":1,"a":1},')).stderr).toMatch(new RegExp(both));
    expect((await other.orders(["export"])).stdout === EXPORT).toBe(true);
  });

  it("take a file without an order for a mistake, and make no store for it", async () => {
    const path = file("no-store");
    for (const input of ["", " \n", "[]"]) {
      const line = ["import", "-", "--persist-to", path];
      expect(await runInProcess(ordersProgram(), line, input)).toEqual(failure("has no orders"));
    }
    expect(existsSync(path)).toBe(false);
  });

  const CSV =
    'id,pet_id,Quantity,Complete,note\n9007199254740993,-9223372036854775808,,TRUE,"a, b"\n7,,3,False,\n';
  const ORDERS = [
    '{"id":9007199254740993,"petId":-9223372036854775808,"complete":true}\n',
    '{"id":7,"quantity":3,"complete":false}\n',
  ].join("");
  const OBJECTS = ORDERS.trim().replace("\n", ",\n");
  const sqlite = `rm FILE; sqlite3 FILE 'CREATE TABLE orders(id INTEGER, petId INTEGER, quantity INTEGER, shipDate, complete, status)' \
    'INSERT INTO orders(id, petId, complete) VALUES (9007199254740993, -9223372036854775808, "true")' 'INSERT INTO orders(id, quantity, complete) VALUES (7, 3, "FALSE")'`;
  it.each([
    ["CSV", "sqlite3", CSV],
    ["CSV", "sqlite3", CSV.replaceAll(", ", "").replaceAll(",", ";")],
    ["CSV", "sqlite3", CSV.replaceAll(", ", "").replaceAll(",", "\t")],
    ["an SQLite database", "sqlite3", sqlite],
    ["SQL", "sqlite3", `${sqlite.replaceAll("FILE", "FILE.db")} && sqlite3 FILE.db .dump > FILE`],
    ["a zip archive", "unzip", "python3 -m zipfile -c FILE orders.ndjson"],
    ["compressed with bzip2", "bzip2", "bzip2 -c orders.ndjson > FILE"],
    ["compressed with xz", "xz", "xz -c orders.ndjson > FILE"],
    ["compressed with zstd", "zstd", "zstd -qc orders.ndjson > FILE"],
    ["text in UTF-16", "iconv", "iconv -t UTF-16 orders.ndjson > FILE"],
    ["text in UTF-16", "iconv", "iconv -t UTF-16LE orders.ndjson > FILE"],
    ["one object with the orders inside", "sqlite3", `{"count":2,"list":\n[${OBJECTS}]}`],
    ["one object with the orders inside", "sqlite3", `{"7":${OBJECTS.replace(",\n", ',"8":')}}`],
    ["XML or HTML", undefined, "<orders/>"],
  ] as const)(
    "name what a file is (%s), and the line that converts it with %s",
    async (name, tool, make) => {
      const inFolder = (line: string): Promise<Outcome> =>
        runCommand("bash", ["-c", `cd ${folder} && ${line}`]);
      if (tool && (await inFolder(`command -v ${tool}`)).status !== 0) return;
      vi.stubEnv("INIT_CWD", folder);
      writeFileSync(file("orders.ndjson"), ORDERS);
      if (!make.includes("FILE")) writeFileSync(file("a b"), make);
      else expect(await inFolder(make.replaceAll("FILE", "'a b'"))).toMatchObject({ status: 0 });
      const options = ["--dry-run", "--persist-to", other.path];
      const bytes = Readable.from([...readFileSync(file("a b"))].map((byte) => Buffer.of(byte)));
      const piped = await runInProcess(ordersProgram(), ["import", "-", ...options], bytes);
      expect(piped).toEqual(failure(`standard input is ${name}, but`));
      // These read no pipe.
      expect(piped.stderr.includes("Convert it")).toBe(!/zip archive|SQLite|XML/.test(name));
      const refused = await runInProcess(ordersProgram(), ["import", "a b", ...options]);
      expect(refused).toEqual(
        failure(`${folder}/a b is ${name}, but an import reads orders in JSON`),
      );
      const [, convert, then] = refused.stderr.trimEnd().split("\n");
      if (tool === undefined) return expect(convert).toBeUndefined();
      const again = `npm run orders -- import 'a b.ndjson' --dry-run --persist-to ${other.path}`;
      expect(then?.trim()).toBe(again);
      expect(await inFolder(convert!.replace(/ &&$/, ""))).toMatchObject({ status: 0 });
      const converted = readFileSync(file("a b.ndjson"), "utf8");
      expect(converted).toBe(ORDERS);
    },
  );

  it.each([
    ["import .", 1, "is a folder"],
    ["export .", 1, "is a folder"],
    ["export - --json", 2, "--json needs a FILE"],
  ])("refuse %s", async (line, status, reason) => {
    const outcome = await other.orders(line.split(" "));
    expect(outcome).toEqual(failure(reason, status));
    expect(outcome.stderr).toMatch(/^error: .*\n$/);
  });

  it.each(["< .", "<&-"])(
    "take no folder and no closed standard input for an empty file: %s",
    async (input) => {
      const line = `"$0" src/operator/main.js orders import - --json --persist-to "$1" ${input}`;
      const outcome = await runCommand("bash", ["-c", line, process.execPath, store.path]);
      expect(outcome).toEqual(failure("standard input is closed, or a folder"));
    },
  );
});
