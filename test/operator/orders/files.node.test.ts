import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StatementSync } from "node:sqlite";
import { Readable } from "node:stream";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { type Outcome, runCommand } from "../deploy/run-command.ts";
import { failure, runInProcess } from "../in-process.ts";
import { StoreFolder } from "../store-folder.ts";

const store = new StoreFolder();
const folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
const file = (name: string) => join(folder, name);
const ORDERS = '{"id":1,"status":"pending"}\n{"id":2,"status":"shipped"}\n';

beforeAll(async () => {
  await store.ordersJson(["import", "-"], ORDERS);
});
afterEach(() => void vi.restoreAllMocks());
afterAll(() => {
  store.remove();
  rmSync(folder, { recursive: true });
});

/** Runs a shell command in which `orders` and `keys` are the commands on this store. */
function shell(line: string): Promise<Outcome> {
  const words = line.replaceAll(/^(?:orders|keys) \w+/gm, (command) => {
    return `"$NODE" src/operator/main.ts ${command} --persist-to "$STORE"`;
  });
  const env = { NODE: process.execPath, STORE: store.path, FOLDER: folder };
  return runCommand("bash", ["-c", words], { env });
}

describe("gzip", () => {
  it("is what an export to a file ending in .gz writes", async () => {
    for (const name of ["out.ndjson.gz", "OUT.GZ"]) {
      await store.ordersJson(["export", file(name)]);
      expect(gunzipSync(readFileSync(file(name))).toString()).toBe(ORDERS);
      expect(await store.ordersJson(["import", file(name)])).toEqual({ imported: 2 });
    }
  });

  it("is recognized by its bytes, in any file and on standard input", async () => {
    writeFileSync(file("zipped.txt"), gzipSync(ORDERS));
    writeFileSync(file("plain.gz"), ORDERS);
    for (const name of ["zipped.txt", "plain.gz"]) {
      expect(await store.ordersJson(["import", file(name)])).toEqual({ imported: 2 });
    }
    const piped = await shell('orders import - --json < "$FOLDER/zipped.txt"');
    expect(piped).toEqual({ status: 0, stdout: '{"imported":2}\n', stderr: "" });
  });

  it("gives the same orders if its bytes arrive one by one", async () => {
    const bytes = Readable.from(Array.from(gzipSync(ORDERS), (byte) => Buffer.of(byte)));
    const args = ["import", "-", "--json", "--persist-to", store.path];
    const imported = await runInProcess(ordersProgram(), args, bytes);
    expect(imported).toEqual({ status: 0, stdout: '{"imported":2}\n', stderr: "" });
    expect((await store.orders(["export"])).stdout).toBe(ORDERS);
  });
});

describe("standard input", () => {
  it.each([
    ["a folder", "orders import - < .", "standard input is closed, or a folder"],
    ["closed", "orders import - <&-", "standard input is closed, or a folder"],
  ])("that is %s is no empty import", async (_, line, message) => {
    expect(await shell(line)).toEqual(failure(message));
  });

  it("may be an export of an empty store", async () => {
    const piped = await shell(
      "printf '' | orders import - --json".replace("| orders", "|\norders"),
    );
    expect(piped).toMatchObject({ status: 0, stdout: '{"imported":0}\n' });
  });
});

describe("a full disk", () => {
  it("during an import blames no line of the file", async () => {
    vi.spyOn(StatementSync.prototype, "run").mockImplementation(() => {
      throw new Error("database or disk is full");
    });
    const outcome = await store.orders(["import", "-"], ORDERS);
    expect(outcome).toEqual(failure("Make room, or set SQLITE_TMPDIR"));
    expect(outcome.stderr).not.toMatch(/line \d/);
    vi.restoreAllMocks();
    expect(await store.ordersJson(["import", "-"], ORDERS)).toEqual({ imported: 2 });
  });

  it("during an export prints one error", async () => {
    const { status, stderr } = await shell("orders export > /dev/full");
    expect(status).toBe(1);
    expect(stderr.trim().split("\n")).toEqual([
      expect.stringMatching(/^error: the output does not fit on the disk/),
    ]);
  });
});
