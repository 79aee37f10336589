import { readFile } from "node:fs/promises";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { parse } from "lossless-json";
import { describe, expect, test } from "vitest";
import { ERROR_STATUS } from "../../src/worker/errors.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { EXACT_READERS, ROUNDING_WARNING } from "../../src/openapi/exact-integers.ts";
import { INT64_MAX, INT64_MIN } from "../../src/worker/orders/int64.ts";
import { QUOTA_HEADERS } from "../../src/worker/limit-rules/headers.ts";
import { LIFECYCLE_HEADERS } from "../../src/worker/middleware/version-lifecycle.ts";

const text = openApiDocument();
const document = JSON.parse(text);
const { listOrders, cancelOrder } = {
  listOrders: document.paths["/store/orders"].get,
  cancelOrder: document.paths["/store/orders/{orderId}"].delete,
};

/** Lints an OpenAPI document with Redocly's strictest set of rules. Returns the problems found. */
async function faultsOf(source: string): Promise<string[]> {
  const config = await createConfig({ extends: ["recommended-strict"], telemetry: "off" });
  const problems = await lintFromString({ source, absoluteRef: "/openapi.json", config });
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`);
}

describe("the document", () => {
  test("passes an independent linter without a warning", async () => {
    expect(await faultsOf(text)).toStrictEqual([]);
  });

  test.each([
    [
      "two operations with the same name",
      '"operationId": "cancelOrder"',
      '"operationId": "listOrders"',
    ],
    [
      "a reference to a missing schema",
      '"#/components/schemas/Order"',
      '"#/components/schemas/Orders"',
    ],
    ["a wrong example", '"petId": 501', '"petId": "501"'],
    ["an unknown field", '"security": [', '"sekurity": ['],
  ])("would not pass the linter with %s", async (_, from, to) => {
    expect(text).toContain(from);
    expect(await faultsOf(text.replace(from, to))).not.toStrictEqual([]);
  });

  test("is the file that the service serves", async () => {
    expect(await readFile("dist/site/openapi.json", "utf8")).toBe(text);
  });

  test("is OpenAPI 3.1 for version 1.0.0, under /v1, with bearer authentication", () => {
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(document.info.version).toBe("1.0.0");
    expect(document.servers[0].url).toBe("/v1");
    expect(document.security).toStrictEqual([{ apiKey: [] }]);
    expect(document.components.securitySchemes.apiKey).toMatchObject({
      type: "http",
      scheme: "bearer",
    });
  });

  test("contains the full address of the server if the deployment knows the address", () => {
    const { servers } = JSON.parse(openApiDocument("https://orders.example"));
    expect(servers).toMatchObject([{ url: "https://orders.example/v1" }]);
  });

  test("warns of rounding, and has code that does not round for each language", () => {
    expect(document.info.description).toContain(ROUNDING_WARNING);
    for (const { lines } of EXACT_READERS) expect(document.info.description).toContain(lines);
  });

  test("announces v2 and explains how a version ends", () => {
    expect(document.info.description).toMatch(/Filtering and pagination[^.]*v2/);
    expect(document.info.description).toMatch(/Deprecation.*RFC 9745/s);
    expect(document.info.description).toMatch(/Sunset.*RFC 8594/s);
  });
});

describe("the operations", () => {
  test("are listOrders and cancelOrder (docs/api.md, Requests)", () => {
    expect(listOrders.operationId).toBe("listOrders");
    expect(cancelOrder.operationId).toBe("cancelOrder");
    const operations = Object.values<Record<string, unknown>>(document.paths).flatMap((item) =>
      Object.keys(item).filter((name) => name !== "parameters"),
    );
    expect(operations).toStrictEqual(["get", "delete"]);
  });

  test("document every status", () => {
    const everywhere = ["401", "405", "429", "500", "503"];
    expect(Object.keys(listOrders.responses).toSorted()).toStrictEqual(
      ["200", "304", ...everywhere].toSorted(),
    );
    expect(Object.keys(cancelOrder.responses).toSorted()).toStrictEqual(
      ["204", "404", "409", ...everywhere].toSorted(),
    );
  });

  test("document every error code at its status", () => {
    const codes = Object.values<any>(document.components.responses).flatMap(({ content }) => {
      const [, narrowed] = content["application/json"].schema.allOf;
      return narrowed.properties.code.enum.map((code: string) => [
        code,
        narrowed.properties.status.const,
      ]);
    });
    expect(Object.fromEntries(codes)).toStrictEqual(ERROR_STATUS);
  });

  test("document the rate-limit headers of every response", () => {
    const answers = [listOrders, cancelOrder].flatMap(({ responses }) =>
      Object.values<any>(responses).map((answer) =>
        "$ref" in answer ? document.components.responses[answer.$ref.split("/").at(-1)] : answer,
      ),
    );
    const names = [...QUOTA_HEADERS.filter((name) => name !== "Retry-After"), ...LIFECYCLE_HEADERS];
    expect(answers).toHaveLength(15);
    for (const { headers } of answers) {
      expect(Object.keys(headers)).toEqual(
        expect.arrayContaining(["X-Request-Id", "Link", ...names]),
      );
    }
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
