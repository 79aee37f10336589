import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseOrder } from "../../../src/operator/orders/source.ts";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";

const INTEGER = "expected an integer from -9223372036854775808 to 9223372036854775807";

describe("parseOrder", () => {
  it("reads every int64 exactly", () => {
    const int64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
    fc.assert(
      fc.property(int64, int64, (id, petId) => {
        const order = parseOrder(`{"id":${id},"petId":${petId}}`);
        expect(order).toStrictEqual({ id, petId, status: "pending" });
      }),
    );
  });

  it("reads every field, with the ship date in UTC", () => {
    const date = "2026-11-20T10:30:00+02:00";
    expect(
      parseOrder(
        `{"status":"shipped","complete":true,"shipDate":"${date}","quantity":0,"petId":-1,"id":1}`,
      ),
    ).toEqual({
      id: 1n,
      petId: -1n,
      quantity: 0n,
      shipDate: "2026-11-20T08:30:00.000Z",
      complete: true,
      status: "shipped",
    });
  });

  it("reads a field that occurs twice with the same value", () => {
    expect(parseOrder('{"id":1,"petId":2,"id":1}')).toMatchObject({ id: 1n, petId: 2n });
  });

  it.each([
    ["{}", `id: missing, ${INTEGER}`],
    ['{"id":1.0}', `id: ${INTEGER}, got 1.0`],
    ['{"id":1e3}', `id: ${INTEGER}, got 1e3`],
    ['{"id":-0}', `id: ${INTEGER}, got -0`],
    ['{"id":"1"}', `id: ${INTEGER}, got "1"`],
    ['{"id":null}', `id: ${INTEGER}, got null`],
    ['{"id":[1]}', `id: ${INTEGER}, got an array`],
    ['{"id":9223372036854775808}', `id: ${INTEGER}, got 9223372036854775808`],
    ['{"id":-9223372036854775809}', `id: ${INTEGER}, got -9223372036854775809`],
    [`{"id":${"9".repeat(80)}}`, `id: ${INTEGER}, got ${"9".repeat(57)}...`],
    ['{"id":1,"quantity":null}', `quantity: ${INTEGER}, got null`],
    ['{"id":1,"complete":1}', "complete: expected true or false, got 1"],
    ['{"id":1,"complete":null}', "complete: expected true or false, got null"],
    ['{"id":1,"complete":"true"}', 'complete: expected true or false, got "true"'],
    ['{"id":1,"status":"cancelled"}', 'status: expected "pending" or "shipped", got "cancelled"'],
    ['{"id":1,"status":null}', 'status: expected "pending" or "shipped", got null'],
    ['{"id":1,"status":"PENDING"}', 'status: expected "pending" or "shipped", got "PENDING"'],
    [
      '{"id":1,"shipDate":"1990-12-31T23:59:60Z"}',
      "shipDate: a leap second, which cannot be stored",
    ],
    ['{"id":1,"shipDate":null}', "shipDate: "],
    ['{"id":1,"shipDate":0}', "shipDate: expected an RFC 3339 date-time, got 0"],
    ['{"id":1,"colour":"red"}', 'unknown field "colour"'],
    ['{"id":1,"__proto__":{"petId":2}}', 'unknown field "__proto__"'],
    ['{"id":1,"id":2}', "not valid JSON: Duplicate key 'id'"],
    ['{"id":01}', "not valid JSON: "],
    ['{"id":1', "not valid JSON: "],
    ['{"id":'.repeat(9_000), "nested too deeply"],
    ['{"id":1}{"id":2}', "not valid JSON: "],
    ["[1]", "expected an order, which is a JSON object"],
    ["null", "expected an order, which is a JSON object"],
  ])("refuses %s", (text, message) => {
    expect(() => parseOrder(text)).toThrow(message);
  });
});
