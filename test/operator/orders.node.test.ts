import * as fs from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, it, test, vi } from "vitest";
import { keysProgram } from "../../src/operator/keys/program.ts";
import { ordersProgram } from "../../src/operator/orders/program.ts";
import { PROJECT_ROOT, runWrangler } from "../../src/operator/wrangler.ts";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";
import { testFolder } from "../support/test-folder.ts";
import { failure, runCommand, runInProcess } from "./commands.ts";
import { setImportSizes } from "./orders/import-sizes.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
const folder = testFolder();
const file = (name: string) => join(folder, name);
const written = (stdout: string, stderr = "") => ({ status: 0, stdout, stderr });

/** A folder without a store. */
const NONE = file("none");
const importInto = (path: string, input: string | Readable, ...options: string[]) =>
  runInProcess(ordersProgram(), ["import", "-", "--persist-to", path, ...options], input);

/** Orders whose ids range from the smallest to the largest int64: one full page of an export. */
const LINES = [
  `{"id":${INT64_MIN},"petId":${INT64_MAX},"quantity":${INT64_MIN},"shipDate":"2026-11-20T08:30:00.000Z","complete":false,"status":"shipped"}`,
  '{"id":-9007199254740993,"complete":true,"status":"pending"}',
  ...Array.from({ length: 7_496 }, (_, id) => `{"id":${id},"status":"pending"}`),
  '{"id":9223372036854775806,"petId":9007199254740993,"status":"pending"}',
  `{"id":${INT64_MAX},"status":"pending"}`,
];
const EXPORT = LINES.map((line) => `${line}\n`).join("");

const [NOON, NIGHT] = ["2026-11-20T12:00:00.000Z", "2026-11-20T23:00:00.000Z"];
const KEY = "key_abcdefghijklmnop";
const BY_KEY = `"status":"cancelled","cancelledAt":"${NOON}","cancelledBy":"${KEY}"`;
/** Returns the line of a cancelled order. */
const cancelled = (id: number, time: number | string, position?: number | bigint) =>
  `{"id":${id},"status":"cancelled","cancelledAt":"${new Date(time).toISOString()}"` +
  (position === undefined ? "}" : `,"position":${position}}`);
/** The same order cancelled twice, and a cancelled order that has been placed again. */
const CANCELLED = [
  cancelled(-5, NOON, 1_795_000_000_000_000),
  `{"id":-5,"petId":${INT64_MIN},"quantity":5,"shipDate":"2026-11-20T08:30:00.125Z","complete":true,${BY_KEY},"position":1795000000000001}`,
  `{"id":7,"complete":false,${BY_KEY},"position":1795000000000777}`,
];

describe("orders import and export", () => {
  it("copy a store with its cancelled orders, also as gzip, byte for byte, and count them", async () => {
    const backup = `${EXPORT}${CANCELLED.join("\n")}\n`;
    const shuffled = [...LINES, ...CANCELLED].toReversed();
    fs.writeFileSync(file("shuffled.json"), `[\n${shuffled.join(",\n")}\n]\n`);
    const counts = "7,503 orders: 7,500 new, 0 replaced, 0 shipped, 0 unchanged, 3 cancelled";
    const makes = "There is no store yet: this import makes one.\n";
    const expected = written(`Would import ${counts}.\n`, makes);
    expect(await importInto(NONE, shuffled.join("\n"), "--dry-run")).toEqual(expected);
    const all = { new: 7_500, replaced: 0, shipped: 0, unchanged: 0, cancelled: 3 };
    const dryRun = await store.ordersJson(["import", file("shuffled.json"), "--dry-run"]);
    expect(dryRun).toEqual({ wouldImport: 7_503, ...all });
    const imported = await store.orders(["import", file("shuffled.json")]);
    expect(imported).toEqual(written(`Imported ${counts}.\n`));
    // The same again changes nothing, and a store with its cancelled orders takes further orders.
    for (const changed of [[], [LINES[1]!.replace("true", "false")]]) {
      const again = await store.ordersJson(["import", "-"], backup + changed.join(""));
      const [replaced, unchanged] = [changed.length, 7_503 - changed.length];
      const counted = { new: 0, replaced, shipped: 0, unchanged, cancelled: 0 };
      expect(again).toEqual({ imported: 7_503, ...counted });
    }
    await store.ordersJson(["import", "-"], LINES[1]);
    const clash = cancelled(1, NOON, 5);
    const notEmpty = `the file has cancelled orders, which only an empty store takes, and this store has orders: name a new store, or leave out the lines with "status":"cancelled"`;
    const missing = "line 2: position: missing, but other cancelled orders of the file have one";
    for (const [line, other, reason] of [
      ['{"id":9}', clash, notEmpty],
      [CANCELLED[1]!.replace('"quantity":5', '"quantity":6'), "", notEmpty],
      [clash, cancelled(2, NOON, 5), "line 2: position: 5 occurs twice"],
      [clash, cancelled(2, NOON), missing],
    ] as const) {
      const refused = { status: 1, stdout: "", stderr: `error: ${reason}\n` };
      expect(await store.orders(["import", "-"], `${line}\n${other}`)).toEqual(refused);
    }
    for (const [name, options, count] of [
      ["all.ndjson", [], "7,500"],
      ["all.NDJSON.GZ", ["--all"], "7,503"],
    ] as const) {
      const outcome = await store.orders(["export", file(name), ...options]);
      expect(outcome).toEqual(written(`Exported ${count} orders to ${file(name)}.\n`));
    }
    expect(fs.readFileSync(file("all.ndjson"), "utf8") === EXPORT).toBe(true);
    expect(gunzipSync(fs.readFileSync(file("all.NDJSON.GZ"))).toString() === backup).toBe(true);
  });

  it("give cancelled orders without positions positions by their times, and refuse times to come", async () => {
    // Each order is a part of its own.
    setImportSizes({ partBytes: 1 });
    const other = new StoreFolder();
    const same = [3, 2, 1].map((id) => cancelled(id, NOON));
    const input = [cancelled(4, NIGHT), ...same, cancelled(5, 0)].join("\n");
    const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0, cancelled: 5 };
    expect(await other.ordersJson(["import", "-"], input)).toEqual({ imported: 5, ...counts });
    const noon = Date.parse(NOON) * 1_000;
    const placed = [1, 2, 3].map((id) => cancelled(id, NOON, noon + id - 1));
    const all = [cancelled(5, 0, 1), ...placed, cancelled(4, NIGHT, noon + 39_600_000_000)];
    expect(await other.orders(["export", "--all"])).toEqual(written(`${all.join("\n")}\n`));
    const soon = Date.now() + 3_600_000;
    const positions = [soon * 1_000, 2n ** 53n - 1n, 2].map((at, ms) => cancelled(1, ms, at));
    const late = [cancelled(1, soon, 1), ...positions].join("\n");
    const faults =
      /1: cancelledAt: later than the database's present time, .*\n.*2: position: later.*\n.*3: position: later.*\n$/;
    const refused = { status: 1, stdout: "", stderr: expect.stringMatching(faults) };
    for (const path of [NONE, other.path]) {
      expect(await importInto(path, late, "--dry-run")).toEqual(refused);
      expect(await importInto(path, late)).toEqual(refused);
    }
    expect(fs.existsSync(NONE)).toBe(false);
  });

  it("know gzip by its bytes, also if they come one by one", async () => {
    const zipped = gzipSync('{"id":1}\n');
    const one = written(expect.stringMatching(/^Imported 1 order: /));
    const bytes = Readable.from(Array.from(zipped, (byte) => Buffer.of(byte)));
    expect(await importInto(store.path, bytes)).toEqual(one);
    fs.writeFileSync(file("zipped.txt"), zipped);
    expect(await store.orders(["import", file("zipped.txt")])).toEqual(one);
    fs.writeFileSync(file("cut.gz"), zipped.subarray(0, -6));
    expect(await store.orders(["import", file("cut.gz")])).toEqual(failure("not whole gzip"));
  });

  it("refuse a file with bad lines, list the first ten and count all, and change nothing", async () => {
    const bad = (input: string) => store.orders(["import", "-", "--json"], input);
    const { stderr: one } = await bad('{"id":5,"petId":1}\n{"id":0.5}\n');
    expect(one).toMatch(/^error: line 2: id: .*, got 0\.5\n$/);
    // A terminal would obey what stands in the file.
    const { stderr: escaped } = await bad('\u001b]52;c;eA==\u0007\n{"id":"\u202e"}\n');
    expect(escaped).toContain('got "\\u{202e}"');
    expect(escaped).toContain("got \\u{1b}]52;c;eA==\\u{7}\n");
    const lines = Array.from({ length: 12 }, (_, index) => `{"id":${index},"petId":null}`);
    const ten = await bad(`{"id":1}\n\n${lines.join("\n")}\n{"id":2}`);
    expect(ten).toEqual(failure("error: 12 orders are bad: nothing was imported. The first 10:\n"));
    const listed = /\n  line 3: petId: null is no value, leave the field out\n(?:  line .*\n){9}$/;
    expect(ten.stderr).toMatch(listed);
    const both = "  element 2: unknown field.*\n  element 3: the file ends before";
    expect((await bad('[{"id":1},{"id":1,"a":1},')).stderr).toMatch(new RegExp(both));
    expect(await store.orders(["export"])).toEqual(written(EXPORT));
  });

  it("take a file without an order for a mistake, make no store for it, and leave a pipe that stays open", async () => {
    for (const input of ["", " \n", "[]"]) {
      expect(await importInto(NONE, input)).toEqual(failure("has no orders: nothing was imported"));
    }
    const reasons = { "<": "is XML or HTML", "[": "longer than 65536 characters" };
    for (const [beginning, reason] of Object.entries(reasons)) {
      const pipe = new Readable({ read() {} });
      pipe.push(beginning + "1".repeat(70_000));
      expect(await importInto(NONE, pipe)).toEqual(failure(reason));
      expect(pipe.destroyed).toBe(true);
    }
    expect(fs.existsSync(NONE)).toBe(false);
  });

  // A shell would obey a part of the last column's name.
  const CSV =
    '\ufeff"id",pet_id,Quantity,"Ship Date",Complete,status,note,com`p`lete\n9007199254740993,-9223372036854775808,,2026-11-20T08:30:00.000Z,TRUE,shipped,"a, b",\n7,,3,,False,,,\n';
  const ORDERS = [
    '{"id":9007199254740993,"petId":-9223372036854775808,"shipDate":"2026-11-20T08:30:00.000Z","complete":true,"status":"shipped"}\n',
    '{"id":7,"quantity":3,"complete":false}\n',
  ].join("");
  const OBJECTS = ORDERS.trim().replace("\n", ",\n");
  const sqlite = `rm FILE; sqlite3 FILE 'CREATE TABLE orders(id INTEGER, petId INTEGER, quantity INTEGER, shipDate, complete, status)' \
    'INSERT INTO orders(id, petId, shipDate, complete, status) VALUES (9007199254740993, -9223372036854775808, "2026-11-20T08:30:00.000Z", "true", "shipped")' 'INSERT INTO orders(id, quantity, complete) VALUES (7, 3, "FALSE")'`;
  it.each([
    ["CSV", "sqlite3", CSV],
    ["CSV", "sqlite3", CSV.replaceAll(", ", "").replaceAll(",", ";").replaceAll("\n", "\r\n")],
    ["CSV", "sqlite3", CSV.replaceAll(", ", "").replaceAll(",", "\t")],
    ["an SQLite database", "sqlite3", sqlite],
    ["SQL", "sqlite3", `${sqlite.replaceAll("FILE", "FILE.db")} && sqlite3 FILE.db .dump > FILE`],
    ["a zip archive", "unzip", "python3 -m zipfile -c FILE orders.ndjson"],
    ["compressed with bzip2", "bzip2", "bzip2 -c orders.ndjson > FILE"],
    ["compressed with zstd", "zstd", "zstd -qc orders.ndjson > FILE"],
    ["text in UTF-16", "iconv", "iconv -t UTF-16LE orders.ndjson > FILE"],
    ["text in UTF-16", "iconv", "iconv -t UTF-16 orders.ndjson > FILE"],
    ["one object with the orders inside", "sqlite3", `{"count":2,"list":\n[${OBJECTS}]}`],
    ["one object with the orders inside", "sqlite3", `{"7":${OBJECTS.replace(",\n", ',"8":')}}`],
  ] as const)("name what a file is (%s), and how %s converts it", async (name, tool, make) => {
    const inFolder = (line: string) => runCommand("bash", ["-c", `cd ${folder} && ${line}`]);
    if ((await inFolder(`command -v ${tool}`)).status !== 0) return;
    vi.stubEnv("INIT_CWD", folder);
    fs.writeFileSync(file("orders.ndjson"), ORDERS);
    if (!make.includes("FILE")) fs.writeFileSync(file("a b"), make);
    else expect(await inFolder(make.replaceAll("FILE", "'a b'"))).toMatchObject({ status: 0 });
    const bytes = Readable.from([...fs.readFileSync(file("a b"))].map((byte) => Buffer.of(byte)));
    const piped = await importInto(store.path, bytes, "--dry-run");
    expect(piped).toEqual(failure(`standard input is ${name}, but`));
    const named = await store.orders(["import", "a b", "--dry-run"]);
    expect(named).toEqual(failure(`${folder}/a b is ${name}, but an import reads orders in JSON`));
    const [, filter] = piped.stderr.trimEnd().split("\n");
    const [, convert, then] = named.stderr.trimEnd().split("\n");
    expect(filter === undefined).toBe(/zip archive|SQLite/.test(name));
    if (filter) expect((await inFolder(`${filter} < 'a b'`)).stdout).toBe(ORDERS);
    const again = `npm run orders -- import 'a b.ndjson' --dry-run --persist-to ${store.path}`;
    expect(then?.trim()).toBe(again);
    expect(await inFolder(convert!.replace(/ &&$/, ""))).toMatchObject({ status: 0 });
    expect(fs.readFileSync(file("a b.ndjson"), "utf8")).toBe(ORDERS);
  });

  it("show an order, cancelled or not, and which key cancelled it", async () => {
    const show = (...words: string[]) => store.orders(["show", ...words]);
    expect(await show(String(INT64_MIN), "--json")).toEqual(written(`${LINES[0]}\n`));
    const text = await show("-5");
    for (const each of [KEY, "2026-11-20 12:00", "cancelled"]) expect(text.stdout).toContain(each);
    expect(await show("7", "--json")).toEqual(written(`${LINES[9]}\n`));
    expect(await show("9999")).toEqual(failure("no order has, or had, the id 9999"));
    expect(await show("x")).toEqual(failure("Expected an integer", 2));
  });
});

test("the documented backup of keys restores an empty database, byte for byte", async () => {
  const runbook = fs.readFileSync(join(PROJECT_ROOT, "docs/runbook.md"), "utf8");
  const [from, to] = [testFolder(), testFolder()];
  for (const each of [from, to]) fs.cpSync("wrangler.toml", join(each, "wrangler.toml"));
  /** Runs a documented command of wrangler on the local store in a folder like the project's. */
  const run = (command: string, at: string, path: string) => {
    const documented = new RegExp(`(?<=npx wrangler )d1 ${command} KEYS .*--(?:output|file)(?= )`);
    const [line = ""] = documented.exec(runbook) ?? [];
    const words = line.replace("--remote --env production", "--local").split(" ");
    return runWrangler([...words, path, "--cwd", at]);
  };
  const keys = async (at: string, line: string, ...last: string[]) => {
    const state = ["--persist-to", join(at, ".wrangler/state"), "--json"];
    const { stdout } = await runInProcess(keysProgram(), [...line.split(" "), ...last, ...state]);
    return JSON.parse(stdout);
  };
  const { id } = await keys(from, "create --plan pro --name", 'O\'Brien; ☕ "é"');
  await keys(from, "create --plan enterprise --per-minute 7 --per-day 9 --name", "-- A");
  for (const line of ["rotate --grace 7d", "rotate", "revoke"]) await keys(from, line, id);
  const [first, second] = [join(from, "keys.sql"), join(to, "keys.sql")];
  await run("export", from, first);
  await run("execute", to, first);
  await run("export", to, second);
  expect(fs.readFileSync(second, "utf8")).toBe(fs.readFileSync(first, "utf8"));
  for (const command of ["list", "audit"]) {
    expect(await keys(to, command)).toEqual(await keys(from, command));
  }
});
