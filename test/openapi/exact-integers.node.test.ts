import { stripTypeScriptTypes } from "node:module";
import { expect, test } from "vitest";
import { EXACT_READERS } from "../../src/openapi/exact-integers.ts";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";

const IDS = [INT64_MIN, 9_007_199_254_740_992n, 9_007_199_254_740_993n, INT64_MAX];
const LIST = IDS.map((id) => `{"id":${id},"petId":${id},"quantity":1,"complete":true}`).join();

// The samples of the page, which the tests run in each language, contain the other lines.
test.each(["JavaScript", "TypeScript"])("the code in %s keeps every digit", (name) => {
  const lines = EXACT_READERS.find(({ language }) => language === name)?.lines ?? "";
  const code = `${stripTypeScriptTypes(lines)} return orders;`;
  // oxlint-disable-next-line typescript/no-implied-eval -- The code is a constant of this project.
  const orders: unknown = new Function("text", code)(`[${LIST}]`);
  expect(orders).toStrictEqual(IDS.map((id) => ({ id, petId: id, quantity: 1n, complete: true })));
});
