import { readFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { parse } from "lossless-json";
import { expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { differencesFromDocument } from "../../src/openapi/documented-answer.ts";
import { EXACT_READERS } from "../../src/openapi/exact-integers.ts";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";
import { EXAMPLES } from "./example-answers.ts";

const text = openApiDocument();

test("is what the service serves, and passes an independent linter without a warning", async () => {
  expect(await readFile("dist/site/openapi.json", "utf8")).toBe(text);
  const config = await createConfig({ extends: ["recommended-strict"], telemetry: "off" });
  const problems = await lintFromString({ source: text, absoluteRef: "/openapi.json", config });
  expect(problems).toStrictEqual([]);
});

const UNAUTHORIZED = 'www-authenticate: Bearer realm="store-orders"';
const RETRY = "retry-after: 5";
const ERRORS = { 401: [UNAUTHORIZED], 403: [], 429: [RETRY], 500: [], 503: [RETRY] };
const READ = { ...ERRORS, 405: ["allow: GET, HEAD"] };
const CANCEL = { ...ERRORS, 204: [], 404: [], 405: ["allow: DELETE"], 409: [] };
const LIST = ["cache-control: private, no-cache", 'etag: "b635bf2fd4266e169c4c0e2344af96d9"'];

test("each operation has these answers and headers of its own, and its examples fit", () => {
  const everywhere = EXAMPLES["GET /quota"]!["403"]![0]!.headers;
  const found = Object.entries(EXAMPLES).map(([operation, byStatus]) => {
    const answers = Object.entries(byStatus).map(([status, examples]) => {
      for (const answer of examples) {
        expect(differencesFromDocument(answer), `${operation} ${status}`).toStrictEqual([]);
      }
      const own = [...examples[0]!.headers].filter(([name]) => !everywhere.has(name));
      const messages = examples.map(({ body }) => status === "412" && JSON.parse(body!).message);
      return [status, [...own.map((header) => header.join(": ")), ...messages.filter(Boolean)]];
    });
    return [operation, Object.fromEntries(answers)];
  });
  const list = "The list has another entity tag than If-Match requires.";
  const untagged = (what: string) => [expect.stringMatching(`${what} has no entity tag`)];
  expect(Object.fromEntries(found)).toStrictEqual({
    "GET /store/orders": { 200: LIST, 304: LIST, ...READ, 412: [expect.stringContaining(list)] },
    "DELETE /store/orders/{orderId}": { ...CANCEL, 412: untagged("An order") },
    "GET /quota": { 200: ["cache-control: no-store"], ...READ, 412: untagged("The quota") },
  });
});

test.each([
  "| Free | 60 | 1,000 |",
  "| Pro | 300 | 10,000 |",
  "| Business | 1,000 | 100,000 |",
  "keeps sending for more than 10 seconds instead",
  "The first ban lasts 60 seconds. Each further ban lasts twice as long, up to 24 hours.",
])("the description says: %s", (words) => {
  expect(JSON.parse(text).info.description).toContain(words);
});

test("names the server that it was built for, and lets clients accept fields that are added later", () => {
  const { servers } = JSON.parse(openApiDocument("http://localhost:9000"));
  expect(servers[0].url).toBe("http://localhost:9000/v1");
  expect(text).not.toContain("additionalProperties");
});

test("no header that API consoles fill by themselves turns a request into a 412", () => {
  const { paths, components } = JSON.parse(text);
  const operations = Object.values<any>(paths).flatMap((path) => Object.values<any>(path));
  const own = operations.flatMap(({ parameters = [] }) => parameters);
  const all = [...own, ...Object.values<any>(components.parameters)];
  const headers = all.filter((parameter) => parameter.in === "header").map(({ name }) => name);
  expect(headers).toStrictEqual(["If-None-Match", "X-Request-Id"]);
  const requestId = new RegExp(all.find(({ name }) => name === "X-Request-Id").schema.pattern);
  const ids = ["bGlzdA==", "nightly_17-a", "a b", "a\n", ""].filter((id) => requestId.test(id));
  expect(ids).toStrictEqual(["bGlzdA==", "nightly_17-a"]);
});

test("an int64 has exact bounds, an orderId is one or its text, and no field of an order is required", () => {
  const { components, paths }: any = parse(text, undefined, BigInt as never);
  const { Int64, OrderId, Order } = components.schemas;
  const [integer, string] = OrderId.anyOf;
  const int64 = { type: "integer", format: "int64", minimum: INT64_MIN, maximum: INT64_MAX };
  expect([Int64, integer]).toMatchObject([int64, int64]);
  for (const name of ["id", "petId", "quantity"]) {
    expect(Order.properties[name].$ref).toBe("#/components/schemas/Int64");
  }
  expect(Order.required).toBeUndefined();
  expect(Order.description).toContain("Every order has an `id`");
  const [parameter] = paths["/store/orders/{orderId}"].parameters;
  expect(parameter.schema.$ref).toBe("#/components/schemas/OrderId");
  const texts = ["0", "42", String(INT64_MIN), String(INT64_MAX)];
  const others = ["", "abc", "1.5", "007", "+5", "-0"];
  const isOrderId = (id: string) => new RegExp(string.pattern).test(id);
  expect([...texts, ...others].filter(isOrderId)).toStrictEqual(texts);
});

test("in compiled languages, integers have 64 bits, and an order's fields can all be missing, but for its id", () => {
  for (const [name, pattern, ...types] of [
    ["Go", /^\t\w+\s+(\S+)\s+`json/gm, "int64", "*int64", "*int64", "*time.Time", "*bool"],
    ["Java", /(\w+) \w+[,)]/g, "long", "Long", "Long", "String", "Boolean"],
    ["C#", /([\w?]+) \w+[,)]/g, "long", "long?", "long?", "DateTimeOffset?", "bool?"],
  ] as const) {
    const { lines = "" } = EXACT_READERS.find(({ language }) => language === name) ?? {};
    expect([...lines.matchAll(pattern)].map(([, type]) => type)).toStrictEqual(types);
  }
});

// The tests of the page's samples run the code in the other languages.
test.each(["JavaScript", "TypeScript"])("the code in %s keeps every digit", (name) => {
  const lines = EXACT_READERS.find(({ language }) => language === name)?.lines ?? "";
  const code = `${stripTypeScriptTypes(lines)} return orders;`;
  // oxlint-disable-next-line typescript/no-implied-eval -- The code is a constant of this project.
  const orders: unknown = new Function("text", code)(`[{"id":${INT64_MAX},"complete":true}]`);
  expect(orders).toStrictEqual([{ id: INT64_MAX, complete: true }]);
});
