import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { runWrangler } from "../../../src/operator/wrangler.ts";
import { LostConnection, useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { ApiError } from "../deploy/route.ts";
import type { Outcome } from "../deploy/run-command.ts";
import { runInProcess } from "../in-process.ts";

vi.mock("../../../src/operator/wrangler.ts", { spy: true });
vi.mocked(runWrangler).mockImplementation(runFakeWrangler);

const NAME = "store-orders-staging-orders";
const cloudflare = useFakeCloudflare("staging");
const folder = mkdtempSync(join(tmpdir(), "store-orders-import-"));
const file = (name: string) => join(folder, name);
afterAll(() => rmSync(folder, { recursive: true }));

const BIG = "9223372036854775807";
/** The number of orders in the import file, which an import sends in three parts. */
const ORDERS = 45_000;
const PLACING = `Placing ${ORDERS.toLocaleString("en")} orders. Until this ends, staging lists and cancels none.\n`;

beforeAll(() => {
  const lines = Array.from(
    { length: ORDERS },
    (_, id) =>
      `{"id":${id},"petId":${BIG},"quantity":-${BIG},"shipDate":"2026-11-20T08:30:00.000Z","complete":true}\n`,
  );
  writeFileSync(file("orders.ndjson.gz"), gzipSync(lines.join(""), { level: 1 }));
  writeFileSync(file("cut.gz"), gzipSync(lines.join(""), { level: 1 }).subarray(0, -1_000));
  lines[ORDERS - 1] = `{"id":${ORDERS - 1},"quantity":7}\n`;
  writeFileSync(file("edited.ndjson"), lines.join(""));
});

interface Query {
  readonly sql: string;
  readonly params: readonly string[];
}

/** The size in bytes of each API call that stored a part of the imported orders. */
let sent: number[];
beforeEach(() => {
  sent = [];
  cloudflare.changes.length = 0;
  onPart(() => {});
});
afterEach(() => {
  sqlite().exec("DELETE FROM order_import_parts; DELETE FROM orders");
});

const sqlite = () => cloudflare.d1.find(NAME).sqlite;
const count = (table: string) =>
  sqlite().prepare(`SELECT count(*) AS count FROM ${table}`).get()?.["count"];

/**
 * Calls `fail` before each API call that stores a part of the imported orders. These calls are
 * numbered from 1.
 */
function onPart(fail: (call: number, query: Query) => void): void {
  cloudflare.interfere = ({ path, body }) => {
    if (!path.endsWith("/query") || !body.includes('"params"')) return;
    sent.push(body.length);
    fail(sent.length, JSON.parse(body.toString()) as Query);
  };
}

function importFile(name: string, ...args: readonly string[]): Promise<Outcome> {
  const command = ["import", file(name), "--env", "staging", "--json", ...args];
  return runInProcess(ordersProgram(), command);
}

const imported = { status: 0, stdout: `{"imported":${ORDERS}}\n`, stderr: PLACING };

describe("an import into a deployed store", () => {
  it("sends a few large parts in queries that do not block, then places all orders", async () => {
    expect(await importFile("orders.ndjson.gz")).toEqual(imported);
    expect(sent).toHaveLength(3);
    expect(Math.max(...sent)).toBeGreaterThan(1_900_000);
    expect(cloudflare.changes).toEqual([
      ...Array.from({ length: 3 }, () => `write to ${NAME}`),
      `import into ${NAME}`,
    ]);
    expect([count("orders"), count("order_import_parts")]).toEqual([ORDERS, 0]);
  });

  it("continues after lost connections, and stores each part once", async () => {
    onPart((call, { sql, params }) => {
      if (call === 2) {
        cloudflare.d1.find(NAME).execute(sql, params);
        throw new LostConnection();
      }
      if (call === 3) throw new ApiError(503, 10_000, "Service unavailable");
    });
    expect(await importFile("orders.ndjson.gz")).toEqual(imported);
    expect(sent).toHaveLength(5);
    expect(count("orders")).toBe(ORDERS);
  });

  it("continues with --resume after an interruption, and sends only missing parts", async () => {
    onPart((call) => {
      if (call === 3) throw new ApiError(403, 10_000, "Authentication error");
    });
    const broken = await importFile("orders.ndjson.gz");
    expect(broken).toMatchObject({ status: 1, stdout: "" });
    expect(broken.stderr).toContain("repeat the command with --resume");
    expect([count("orders"), count("order_import_parts")]).toEqual([0, 2]);

    const edited = await importFile("edited.ndjson", "--resume");
    expect(edited).toMatchObject({ status: 1, stdout: "" });
    expect(edited.stderr).toContain("the store has no part of this file");
    expect([count("orders"), count("order_import_parts")]).toEqual([0, 2]);

    sent = [];
    expect(await importFile("orders.ndjson.gz", "--resume")).toEqual(imported);
    expect(sent).toHaveLength(1);
    expect([count("orders"), count("order_import_parts")]).toEqual([ORDERS, 0]);

    const again = await importFile("orders.ndjson.gz", "--resume");
    expect(again).toMatchObject({ status: 1, stdout: "" });
    expect(again.stderr).toContain("its import was completed");
  });

  it("reports that the import was completed if the connection is lost during it", async () => {
    let asked = 0;
    cloudflare.interfere = ({ path, body }) => {
      if (!path.endsWith("/import") || !body.includes("poll")) return;
      asked += 1;
      throw new ApiError(500, 7_500, "Network connection lost.");
    };
    const broken = await importFile("orders.ndjson.gz");
    expect(asked).toBe(1);
    expect(broken).toMatchObject({ status: 1, stdout: "" });
    expect(broken.stderr).toContain("parts of this import are gone: it was completed");
    expect(count("orders")).toBe(ORDERS);
  });

  it("with --dry-run checks a file and sends no request", async () => {
    let asked = 0;
    cloudflare.interfere = () => void (asked += 1);
    const checked = await importFile("orders.ndjson.gz", "--dry-run");
    expect(checked).toEqual({ status: 0, stdout: `{"wouldImport":${ORDERS}}\n`, stderr: "" });
    writeFileSync(file("bad.ndjson"), '{"id":1}\n{"id":1.5}\n');
    const bad = await importFile("bad.ndjson", "--dry-run");
    expect(bad).toMatchObject({ status: 1, stdout: "" });
    expect(bad.stderr).toContain("line 2: id: expected an integer");
    expect(asked).toBe(0);
  });

  it.each([
    [["cut.gz"], 1, "the file is not whole gzip: unexpected end of file"],
    [["plain.gz"], 1, "the file is not whole gzip: incorrect header check"],
    [["missing.gz"], 1, "missing.gz does not exist"],
    [["cut.gz", "--resume", "--dry-run"], 2, "cannot be used with option"],
  ] as const)("refuses %j", async ([name, ...args], status, message) => {
    writeFileSync(file("plain.gz"), '{"id":1}\n');
    const outcome = await importFile(name, ...args);
    expect(outcome).toMatchObject({ status, stdout: "" });
    expect(outcome.stderr).toContain(message);
    expect(cloudflare.changes).toEqual([]);
  });
});
