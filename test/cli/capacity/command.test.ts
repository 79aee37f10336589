import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { capacityProgram } from "../../../src/cli/capacity/program.ts";
import { runInProcess } from "../in-process.ts";
import { smallSample } from "./small-sample.ts";

let folder: string;
let quick: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "store-orders-test-"));
  quick = file("quick.json", JSON.stringify(smallSample()));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const run = (...args: string[]) => runInProcess(capacityProgram(), args);

describe("npm run capacity", () => {
  test("prints tables and where each figure comes from", async () => {
    const { status, stdout, stderr } = await run(
      "--keys",
      "1e3",
      "--orders",
      "1e4",
      "5e7",
      "--assumptions",
      quick,
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    for (const text of [
      "A day of an active key, simulated",
      "What breaks as keys grow",
      "Size of one D1 database",
      "D1 queries in one invocation",
      "https://developers.cloudflare.com/d1/platform/limits/",
      "looked up on 2026-",
    ]) {
      expect(stdout).toContain(text);
    }
    expect(stdout).not.toMatch(/NaN|undefined|Infinity/);
  });

  test("prints one JSON value with --json, with the figures of this machine", async () => {
    const { stdout } = await run(
      "--keys",
      "1000",
      "1e5",
      "--orders",
      "1e4",
      "--json",
      "--assumptions",
      quick,
    );
    const { scales, measured, traffic, published, assumptions } = JSON.parse(stdout);
    expect(scales.map(({ keys, orders }: any) => [keys, orders])).toEqual([
      [1e3, 1e4],
      [1e5, 1e4],
    ]);
    expect(scales[0].bill.total).toBeGreaterThanOrEqual(5);
    expect(traffic.sampledKeys).toBe(3 * 30 + 8 + 4 * 3);
    expect(assumptions).toEqual(smallSample());
    expect(published.prices.rowsRead.source).toMatch(/^https:/);
    // {"id":100000001,"petId":1,"quantity":1,"shipDate":"2026-11-21T12:00:00.000Z","complete":false},
    expectBetween(measured.listedOrderBytes, [90, 105]);
    // An order is at least the text of its date, a key at least its hash twice, a report an id and a day.
    expectBetween(measured.orderBytes, [24, 100]);
    expectBetween(measured.keyBytes, [128, 1_000]);
    expectBetween(measured.usageBytes, [30, 150]);
    expect(measured.pageReadMs).toBeGreaterThan(0);
    expect(measured.orderCpuMs).toBeGreaterThan(0);
  });

  test("replaces only the assumptions that a file names", async () => {
    const more = file(
      "more.json",
      JSON.stringify({ ...smallSample(), unauthorizedShare: 1, cost: { requestCpuMs: 5 } }),
    );
    const month = async (path: string) => {
      const { stdout } = await run(
        "--keys",
        "1e5",
        "--orders",
        "1e4",
        "--json",
        "--assumptions",
        path,
      );
      return JSON.parse(stdout).scales[0].use;
    };
    const [before, after] = [await month(quick), await month(more)];
    expect(after.requests / before.requests).toBeCloseTo(2 / 1.02);
    expect(after.cpuMs / before.cpuMs).toBeGreaterThan(5);
    expect(after.rowsWritten).toBe(before.rowsWritten);
  });
});

describe("wrong usage", () => {
  test.for([
    [["--keys", "0"], "Expected a whole number from 1 to 1e12"],
    [["--keys", "ten"], "Expected a whole number"],
    [["--orders", "1e13"], "Expected a whole number"],
    [["--orders"], "argument missing"],
    [["more"], "too many arguments"],
  ] as const)("%j", async ([args, message]) => {
    const { status, stderr } = await run(...args);
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(message) });
  });

  test.for([
    ["{", "is not JSON"],
    ['{"cancelShare": 2}', "cancelShare"],
    ['{"colour": 1}', "colour"],
    ['{"plans": {"free": {"sample": 1}}}', "plans.free.sample"],
    ["7", "expected object"],
  ] as const)("assumptions of %s", async ([text, message]) => {
    const { status, stderr } = await run("--assumptions", file("wrong.json", text));
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(message) });
  });

  test("a file that is not there", async () => {
    const { status, stderr } = await run("--assumptions", join(folder, "nothing.json"));
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: expect.stringContaining("nothing.json"),
    });
  });
});

function expectBetween(value: number, [least, most]: readonly [number, number]): void {
  expect(value).toBeGreaterThan(least);
  expect(value).toBeLessThan(most);
}
