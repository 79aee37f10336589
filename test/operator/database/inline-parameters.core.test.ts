import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { inlineParameters } from "../../../src/operator/database/inline-parameters.ts";

const sqlite = new DatabaseSync(":memory:");

function read(sql: string, parameters: (string | number | null)[]): unknown[] {
  const statement = sqlite.prepare(inlineParameters({ sql, params: parameters }));
  statement.setReadBigInts(true);
  const params = Object.values(statement.get() ?? {});
  return params.map((value) => (typeof value === "bigint" ? Number(value) : value));
}

describe("inlineParameters", () => {
  it("writes any text so that SQLite reads it back", () => {
    const text = fc.string({ unit: "binary", maxLength: 40 });
    const syntax = ["'", '"', "`", ";", "--", "/*", "*/", "?", "?1", "\\", "\n", "\r\n", "[", "x"];
    const hostile = fc.array(fc.constantFrom(...syntax)).map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.oneof(text, hostile), fc.oneof(text, hostile), (a, b) => {
        fc.pre(!a.includes("\0") && !b.includes("\0"));
        const params = read("SELECT ? AS a, 'it''s ?' AS \"b?\", ? AS c -- ?", [a, b]);
        expect(params).toEqual([a, "it's ?", b]);
      }),
    );
  });

  it("writes any finite number so that SQLite reads it back", () => {
    const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
    fc.assert(
      fc.property(fc.oneof(finite, fc.maxSafeInteger()), (n) => {
        expect(read("SELECT 0 -? AS n", [n])).toEqual([0 - n]);
      }),
    );
  });

  it("writes null, and int64 as text within a CAST", () => {
    expect(read("SELECT ? IS NULL AS n", [null])).toEqual([1]);
    const extremes = ["-9223372036854775808", "9223372036854775807"];
    const cast = "SELECT CAST(? AS INTEGER) || '' AS a, CAST(? AS INTEGER) || '' AS b";
    expect(read(cast, extremes)).toEqual(extremes);
  });

  it.each([
    ["?", ["a\0b"], "NUL"],
    ["?", ["\ud800"], "Unicode"],
    ["?", [Number.NaN], "NaN"],
    ["?", [Number.POSITIVE_INFINITY], "Infinity"],
    ["?", [new Date(0)], "1970"],
    ["?", [], "too few"],
    ["?", ["a", "b"], "too many"],
    ["?1", ["a"], "?1"],
  ])("refuses %s with %j: %s", (place, params, message) => {
    const statement = { sql: `SELECT ${place}`, params: params as string[] };
    expect(() => inlineParameters(statement)).toThrow(message);
  });
});
