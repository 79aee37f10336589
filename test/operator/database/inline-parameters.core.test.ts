import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { inlineParameters } from "../../../src/operator/database/inline-parameters.ts";

const sqlite = new DatabaseSync(":memory:");

function read(sql: string, params: (string | number | null)[]): unknown[] {
  const statement = sqlite.prepare(inlineParameters({ sql, params }));
  statement.setReadBigInts(true);
  const values = Object.values(statement.get() ?? {});
  return values.map((value) => (typeof value === "bigint" ? Number(value) : value));
}

describe("inlineParameters", () => {
  it("writes any text so that SQLite reads it back", () => {
    const text = fc.string({ unit: "binary", maxLength: 40 });
    const hostile = fc
      .array(
        fc.constantFrom(
          "'",
          '"',
          "`",
          ";",
          "--",
          "/*",
          "*/",
          "?",
          "?1",
          "\\",
          "\n",
          "\r\n",
          "[",
          "x",
        ),
      )
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.oneof(text, hostile), fc.oneof(text, hostile), (a, b) => {
        fc.pre(!a.includes("\0") && !b.includes("\0"));
        expect(read("SELECT ? AS a, 'it''s ?' AS \"b?\", ? AS c -- ?", [a, b])).toEqual([
          a,
          "it's ?",
          b,
        ]);
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
    expect(
      read("SELECT CAST(? AS INTEGER) || '' AS a, CAST(? AS INTEGER) || '' AS b", extremes),
    ).toEqual(extremes);
  });

  it.each([
    ["a NUL, at which SQLite would end the text", ["a\0b"], "NUL"],
    ["half a surrogate pair", ["\ud800"], "Unicode"],
    ["NaN", [Number.NaN], "NaN"],
    ["an infinite number", [Number.POSITIVE_INFINITY], "Infinity"],
    ["another type", [new Date(0)], "1970"],
    ["too few", [], "too few"],
    ["too many", ["a", "b"], "too many"],
  ])("refuses %s", (_, params, message) => {
    const statement = { sql: "SELECT ?", params: params as string[] };
    expect(() => inlineParameters(statement)).toThrow(message);
  });

  it("refuses numbered parameters", () => {
    expect(() => inlineParameters({ sql: "SELECT ?1", params: ["a"] })).toThrow("?1");
  });
});
