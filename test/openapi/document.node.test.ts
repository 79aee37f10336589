import { readFile } from "node:fs/promises";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { parse } from "lossless-json";
import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { readDocument } from "../../src/openapi/read-document.ts";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";

const text = openApiDocument();
const document = JSON.parse(text);
const { operations } = readDocument(document);

test("is what the service serves, and passes an independent linter without a warning", async () => {
  expect(await readFile("dist/site/openapi.json", "utf8")).toBe(text);
  const config = await createConfig({ extends: ["recommended-strict"], telemetry: "off" });
  const problems = await lintFromString({ source: text, absoluteRef: "/openapi.json", config });
  expect(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)).toStrictEqual([]);
});

/** Lists every schema of the document, wherever it is. */
function schemasIn(part: any): any[] {
  if (typeof part !== "object" || part === null) return [];
  const own = "type" in part || "enum" in part || "const" in part || "properties" in part;
  return [...(own ? [part] : []), ...Object.values(part).flatMap(schemasIn)];
}

describe("the tools that people bring", () => {
  test("find one type beside each enum, no list of types and no const", () => {
    for (const schema of schemasIn(document.components).concat(schemasIn(document.paths))) {
      if ("enum" in schema) expect(schema.type).toMatch(/^(?:string|integer)$/);
      expect(Array.isArray(schema.type) || "const" in schema).toBe(false);
    }
  });

  test("accept responses with fields that are added later", () => {
    expect(text).not.toContain("additionalProperties");
    expect(document.info.description).toContain("Fields, headers and error codes may be added");
  });

  test("prefill no optional parameter", () => {
    for (const { required, example, schema } of operations.flatMap((one) => one.parameters)) {
      if (!required) expect([example, schema["example"], schema["default"]]).toEqual(Array(3));
    }
  });

  test("know where the document was served, and are warned of jq 1.6", () => {
    const { servers, info } = JSON.parse(openApiDocument("http://localhost:9000"));
    expect(servers[0].url).toBe("http://localhost:9000/v1");
    expect(info.description).toContain("`jq` 1.6");
  });

  test("know 412 for both operations", () => {
    for (const { responses, parameters } of operations) {
      expect(responses).toHaveProperty("412");
      expect(parameters.map(({ name }) => name)).toContain("If-Match");
    }
  });
});

test("an int64 has exact bounds, and an orderId is one or its text", () => {
  const exact: any = parse(text, undefined, BigInt as never);
  const { Int64, OrderId, Order } = exact.components.schemas;
  const [integer, string] = OrderId.anyOf;
  for (const schema of [Int64, integer]) {
    const bounds = { minimum: INT64_MIN, maximum: INT64_MAX };
    expect(schema).toMatchObject({ type: "integer", format: "int64", ...bounds });
  }
  for (const name of ["id", "petId", "quantity"]) {
    expect(Order.properties[name].$ref).toBe("#/components/schemas/Int64");
  }
  expect(Order.required).toBeUndefined();
  expect(Order.description).toContain("Every order has an `id`");
  const [parameter] = document.paths["/store/orders/{orderId}"].parameters;
  expect(parameter.schema.$ref).toBe("#/components/schemas/OrderId");
  for (const id of ["0", "42", String(INT64_MIN), String(INT64_MAX)]) {
    expect(id).toMatch(new RegExp(string.pattern));
  }
  for (const id of ["", "abc", "1.5", "007", "+5", "-0"]) {
    expect(id).not.toMatch(new RegExp(string.pattern));
  }
});
