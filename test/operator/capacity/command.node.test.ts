import { describe, expect, test } from "vitest";
import { capacityProgram } from "../../../src/operator/capacity/program.ts";
import { runInProcess } from "../in-process.ts";

const run = (...args: string[]) => runInProcess(capacityProgram(), args);

describe("npm run capacity", () => {
  test.for([[], ["--keys", "1", "999999999999", "--orders", "1", "999999999999"]])(
    "prints tables of 80 columns at most: %j",
    async (args) => {
      const { status, stdout, stderr } = await run(...args);
      expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
      expect(stdout.split("\n").filter((line) => /^(?! {2}- ).{81}/.test(line))).toEqual([]);
      expect(stdout).not.toMatch(/NaN|undefined|Infinity/);
      for (const text of ["unchanged list, 304", "not possible", "rounded up", "https://", "$5."]) {
        expect(stdout).toContain(text);
      }
    },
  );

  test("prints one JSON value with --json: the scales and the assumptions", async () => {
    const { stdout } = await run("--keys", "1e3", "1e9", "--orders", "1e4", "--json");
    const { scales, assumptions } = JSON.parse(stdout);
    expect(scales).toMatchObject([
      { keys: 1e3, orders: 1e4, bill: { total: expect.any(Number) } },
      { keys: 1e9, orders: 1e4, bill: null },
    ]);
    expect(assumptions.conditionalShare).toBe(0.5);
  });

  test("accepts assumptions as options", async () => {
    const requestsWith = async (...args: string[]) => {
      const { stdout } = await run("--keys", "1e5", "--orders", "1e4", "--json", ...args);
      return JSON.parse(stdout).scales[0].requests;
    };
    const ratio =
      (await requestsWith("--unauthorized-share", "1", "--requests-per-key", "320")) /
      (await requestsWith());
    expect(ratio).toBeCloseTo((2 * 2) / 1.02);
  });

  test("explains every assumption with --help", async () => {
    const { status, stdout } = await run("--help");
    expect(status).toBe(0);
    expect(stdout).toMatch(/--conditional-share <n> +share of the list requests/);
  });

  test.for([
    [["--keys", "0"], "Expected a whole number from 1 to 1e12"],
    [["--keys", "ten"], "Expected a whole number"],
    [["--orders", "1e13"], "Expected a whole number"],
    [["--orders"], "argument missing"],
    [["--cancel-share", "1.5"], "Expected a number from 0 to 1"],
    [["--isolates", "0"], "Expected a number above 0"],
    [["--isolates", "-1"], "Expected a number above 0"],
    [["--colour", "1"], "unknown option"],
    [["more"], "too many arguments"],
  ] as const)("refuses %j", async ([args, message]) => {
    const { status, stdout, stderr } = await run(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain(message);
  });
});
