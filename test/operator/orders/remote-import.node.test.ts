import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { IMPORT_SIZES } from "../../../src/operator/orders/placement.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { atEveryCall, shortenPauses } from "../deploy/faults.ts";
import { ApiError } from "../deploy/route.ts";
import { type Outcome, withoutProgress } from "../deploy/run-command.ts";
import { failure, runInProcess } from "../in-process.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const NAME = "store-orders-staging-orders";
const cloudflare = useFakeCloudflare("staging");
const folder = mkdtempSync(join(tmpdir(), "store-orders-import-"));
const file = (name: string) => join(folder, name);
afterAll(() => rmSync(folder, { recursive: true }));

/** The number of orders that an import sends in two parts, if parts are `SMALL`. */
const TWO_PARTS = 150;
const SMALL = { partCharacters: 10_000 };
/** The number of orders that an import sends in two parts of the real size. */
const MANY = 18_000;

const BIG = 9_223_372_036_854_775_807n;

/** Returns orders as lines of NDJSON. Their numbers are long, so that few orders fill a part. */
function linesOf(count: number): string[] {
  return Array.from(
    { length: count },
    (_, index) =>
      `{"id":${BIG - BigInt(index)},"petId":-${BIG},"quantity":-${BIG},"shipDate":"2026-11-20T08:30:00.000Z","complete":true}\n`,
  );
}

beforeAll(() => {
  const lines = linesOf(TWO_PARTS);
  const zipped = gzipSync(lines.join(""), { level: 1 });
  writeFileSync(file("two-parts.ndjson.gz"), zipped);
  writeFileSync(file("cut.gz"), zipped.subarray(0, -100));
  // Imports sort orders by id. Line 0 has the greatest id, so the edit changes only the last part.
  writeFileSync(file("edited.ndjson"), lines.with(0, `{"id":${BIG},"quantity":7}\n`).join(""));
  writeFileSync(file("many.ndjson"), linesOf(MANY).join(""));
});

/** The size in bytes of each API call that stored a part of the imported orders. */
let sent: number[];
beforeEach(() => {
  sent = [];
  Object.assign(IMPORT_SIZES, SMALL);
  cloudflare.changes.length = 0;
  onPart(() => {});
});
const REAL = { ...IMPORT_SIZES };
afterEach(() => {
  Object.assign(IMPORT_SIZES, REAL);
  sqlite().exec("DELETE FROM order_import_parts; DELETE FROM orders WHERE status = 'pending'");
});

const sqlite = () => cloudflare.d1.find(NAME).sqlite;
const count = (table: string) =>
  sqlite().prepare(`SELECT count(*) AS count FROM ${table}`).get()?.["count"];

/** Before each API call that stores a part, calls `fail` with the number of the call, from 1. */
function onPart(fail: (call: number) => void): void {
  cloudflare.interfere = ({ path, body }) => {
    if (!path.endsWith("/raw") || !body.includes('insert into \\"order_import_parts\\"')) return;
    sent.push(body.length);
    fail(sent.length);
  };
}

async function importFile(name: string, ...args: readonly string[]): Promise<Outcome> {
  const command = ["import", file(name), "--env", "staging", "--json", ...args];
  const outcome = await runInProcess(ordersProgram(), command);
  return { ...outcome, stderr: withoutProgress(outcome) };
}

const imported = (orders: number) => ({
  status: 0,
  stdout: `{"imported":${orders}}\n`,
  stderr: `Placing ${orders.toLocaleString("en")} orders. Until this ends, staging lists and cancels none.\n`,
});

describe("an import into a deployed store", () => {
  it("sends large parts in queries that do not block, then places all orders in a file", async () => {
    Object.assign(IMPORT_SIZES, REAL, { partsPerBatch: 1 });
    expect(await importFile("many.ndjson")).toEqual(imported(MANY));
    expect(sent).toHaveLength(2);
    expect(Math.max(...sent)).toBeGreaterThan(1_900_000);
    const write = `write to ${NAME}`;
    expect(cloudflare.changes).toEqual([write, write, `import into ${NAME}`]);
    expect([count("orders"), count("order_import_parts")]).toEqual([MANY, 0]);
    const exported = await runInProcess(ordersProgram(), ["export", "--env", "staging"]);
    const lines = linesOf(MANY).map((line) => line.replace("}", ',"status":"pending"}'));
    expect(exported.stdout === lines.toReversed().join("")).toBe(true);
  });

  it("whatever happens at any call, places all orders or none, and the same command again ends it", async () => {
    shortenPauses();
    const state = () => [count("orders"), count("order_import_parts")];
    const run = () => {
      sqlite().exec("DELETE FROM order_import_parts; DELETE FROM orders");
      return importFile("two-parts.ndjson.gz");
    };
    await atEveryCall(cloudflare, run, async ({ status, stderr }, label) => {
      const isPlaced = count("orders") === TWO_PARTS;
      expect(isPlaced ? [TWO_PARTS, 0] : [0, expect.any(Number)], label).toEqual(state());
      if (status === 0) expect(isPlaced, label).toBe(true);
      else if (!stderr.includes("the file was read")) {
        expect(stderr, label).toMatch(/run the same command again\n$/);
      }
      const again = await importFile("two-parts.ndjson.gz");
      expect(again, label).toMatchObject({ status: 0, stdout: `{"imported":${TWO_PARTS}}\n` });
      expect(state(), label).toEqual([TWO_PARTS, 0]);
    });
  });

  it("sends only missing parts when it is repeated, and places nothing twice", async () => {
    onPart((call) => {
      if (call === 2) throw new ApiError(403, 10_000, "Authentication error");
    });
    const interrupted = failure("run the same command again");
    expect(await importFile("two-parts.ndjson.gz")).toEqual(interrupted);
    onPart(() => {});
    // Housekeeping deletes parts by age, so the part must have the time of its creation.
    const part = sqlite().prepare("SELECT created_at FROM order_import_parts").get();
    expect(part).toEqual({ created_at: expect.closeTo(Date.now(), -5) });
    expect([count("orders"), count("order_import_parts")]).toEqual([0, 1]);
    sent = [];
    expect(await importFile("two-parts.ndjson.gz")).toEqual(imported(TWO_PARTS));
    expect(sent).toHaveLength(1);
    expect([count("orders"), count("order_import_parts")]).toEqual([TWO_PARTS, 0]);
    const version = () => sqlite().prepare("SELECT version FROM order_list").get();
    const before = version();
    expect(await importFile("two-parts.ndjson.gz")).toMatchObject({ status: 0, stderr: "" });
    expect(version()).toEqual(before);
  });

  it("through wrangler that was placed is done, although its answer was lost", async () => {
    shortenPauses();
    IMPORT_SIZES.partsPerBatch = 1;
    vi.mocked(wrangler.runWrangler).mockImplementationOnce(async (args) => {
      await runFakeWrangler(args);
      throw new Error("fetch failed");
    });
    expect(await importFile("two-parts.ndjson.gz")).toEqual(imported(TWO_PARTS));
    expect([count("orders"), count("order_import_parts")]).toEqual([TWO_PARTS, 0]);
  });

  it("refuses gzip that is cut off", async () => {
    expect(await importFile("cut.gz")).toEqual(
      failure("the file is not whole gzip: unexpected end"),
    );
    expect(cloudflare.changes).toEqual([]);
  });
});

// These tests come last: their shipped orders cannot be deleted and would change earlier counts.
describe("an import of orders that a deployed store has", () => {
  /** The smallest order id of the current test. */
  let id = 0;
  beforeEach(() => {
    id += 10;
    sqlite().exec(
      `INSERT INTO orders (id, status)
       VALUES (${id}, 'pending'), (${id + 1}, 'pending'), (${id + 2}, 'shipped')`,
    );
    const lines = [
      `{"id":${id},"status":"shipped"}`,
      `{"id":${id + 1},"petId":1}`,
      `{"id":${id + 3}}`,
    ];
    writeFileSync(file("changes.ndjson"), lines.join("\n"));
    writeFileSync(file("new.ndjson"), `{"id":${id + 2},"status":"shipped"}\n{"id":${id + 3}}`);
    writeFileSync(file("ships.ndjson"), `{"id":${id},"status":"shipped"}`);
    writeFileSync(file("bad.ndjson"), `{"id":${id + 3}}\n{"id":${id + 2}}`);
  });
  const stored = () => sqlite().prepare("SELECT id, pet_id, status FROM orders").all();
  const counted = "This imports 3 orders: 1 new, 1 replaced, 1 shipped, 0 unchanged, into staging.";

  it("counts them with --dry-run, and writes nothing", async () => {
    const checked = await importFile("changes.ndjson", "--dry-run");
    const counts = '"wouldImport":3,"new":1,"replaced":1,"shipped":1,"unchanged":0';
    expect(checked).toEqual({ status: 0, stdout: `{${counts}}\n`, stderr: "" });
    const bad = failure(`line 2: order ${id + 2} has shipped, which cannot be turned back`);
    expect(await importFile("bad.ndjson", "--dry-run")).toEqual(bad);
    expect(cloudflare.changes).toEqual([]);
    cloudflare.interfere = ({ body }) => {
      if (body.includes("delete from")) throw new ApiError(403, 10_000, "Authentication error");
    };
    expect(await importFile("bad.ndjson")).toEqual(bad);
  });

  it("asks before it replaces or ships them, and changes nothing without a yes", async () => {
    const before = stored();
    const line = ["import", file("changes.ndjson"), "--env", "staging"];
    const refused = await runInProcess(ordersProgram(), line);
    expect(refused).toEqual(failure(counted));
    const ships = failure("This imports 1 order: 0 new, 0 replaced, 1 shipped, 0 unchanged");
    expect(await importFile("ships.ndjson")).toEqual(ships);
    const asked = await runInProcess(ordersProgram(), line, "no\n", { isTerminal: true });
    expect(asked.stderr).toContain("error: not confirmed: nothing was changed");
    expect([stored(), count("order_import_parts")]).toEqual([before, 0]);

    const agreed = await runInProcess(ordersProgram(), line, "staging\n", { isTerminal: true });
    expect(agreed).toMatchObject({
      status: 0,
      stdout: "Imported 3 orders: 1 new, 1 replaced, 1 shipped, 0 unchanged.\n",
    });
    expect(stored()).not.toEqual(before);
  });

  it("does not ask with --yes, or if it only adds orders", async () => {
    expect(await importFile("new.ndjson")).toEqual(imported(2));
    expect(await importFile("changes.ndjson", "--yes")).toEqual(imported(3));
  });
});
