import { readFile } from "node:fs/promises";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { parse } from "lossless-json";
import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { INT64_MAX, INT64_MIN } from "../../src/rules/int64.ts";

const text = openApiDocument();
const document = JSON.parse(text);
describe("the document", () => {
  test("passes an independent linter without a warning", async () => {
    const config = await createConfig({ extends: ["recommended-strict"], telemetry: "off" });
    const absoluteRef = "/openapi.json";
    const problems = await lintFromString({ source: text, absoluteRef, config });
    expect(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)).toStrictEqual([]);
  });

  test("is the file that the service serves", async () => {
    expect(await readFile("dist/site/openapi.json", "utf8")).toBe(text);
  });
});

describe("int64", () => {
  test("has exact bounds", () => {
    const exact: any = parse(text, undefined, BigInt as never);
    const { Int64, OrderId } = exact.components.schemas;
    expect(Int64).toMatchObject({ type: "integer", format: "int64" });
    for (const { minimum, maximum } of [Int64, OrderId]) {
      expect([minimum, maximum]).toStrictEqual([INT64_MIN, INT64_MAX]);
    }
  });

  test("is the type of every integer of an order", () => {
    const { properties, required, description } = document.components.schemas.Order;
    for (const name of ["id", "petId", "quantity"]) {
      expect(properties[name].$ref).toBe("#/components/schemas/Int64");
    }
    expect(required).toBeUndefined();
    expect(description).toContain("Every order has an `id`");
  });

  test("is allowed as an integer or as text for an orderId, so that every client can send it exactly", () => {
    const { OrderId } = document.components.schemas;
    const [parameter] = document.paths["/store/orders/{orderId}"].parameters;
    expect(parameter.schema.$ref).toBe("#/components/schemas/OrderId");
    expect(OrderId).toMatchObject({ type: ["integer", "string"], format: "int64" });
    const pattern = new RegExp(OrderId.pattern);
    for (const id of ["0", "42", String(INT64_MIN), String(INT64_MAX)]) {
      expect(id).toMatch(pattern);
    }
    for (const id of ["", "abc", "1.5", "007", "+5", "-0"]) expect(id).not.toMatch(pattern);
  });
});
