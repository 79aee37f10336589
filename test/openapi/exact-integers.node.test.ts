import { execFile } from "node:child_process";
import { stripTypeScriptTypes } from "node:module";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { EXACT_READERS } from "../../src/openapi/exact-integers.ts";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";

const run = promisify(execFile);
const [python] = await Promise.allSettled([run("python3", ["--version"])]);

const IDS = [INT64_MIN, 9_007_199_254_740_992n, 9_007_199_254_740_993n, INT64_MAX];
const LIST = IDS.map((id) => `{"id":${id},"petId":${id},"quantity":1,"complete":true}`).join();
const text = `[${LIST}]`;

function linesIn(name: string): string {
  return EXACT_READERS.find(({ language }) => language === name)?.lines ?? "";
}

test.each([
  ["JavaScript", linesIn("JavaScript")],
  ["TypeScript", stripTypeScriptTypes(linesIn("TypeScript"))],
])("the code in %s keeps every digit", (_, lines) => {
  // oxlint-disable-next-line typescript/no-implied-eval -- The code is a constant of this project.
  const orders: unknown = new Function("text", `${lines} return orders;`)(text);
  const expected = IDS.map((id) => ({ id, petId: id, quantity: 1n, complete: true }));
  expect(orders).toStrictEqual(expected);
});

test.skipIf(python.status === "rejected")("the code in Python keeps every digit", async () => {
  const script = `text = '''${text}'''\n${linesIn("Python")}\nprint([order["id"] for order in orders])`;
  const { stdout } = await run("python3", ["-c", script]);
  expect(stdout.trim()).toBe(`[${IDS.join(", ")}]`);
});
