import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN, parseInt64 } from "../../src/rules/int64.ts";
import { shipDateSchema } from "../../src/rules/order.ts";

test("an int64 is parsed only in canonical decimal", () => {
  const anyText = fc.oneof(
    fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }).map(String),
    fc.constantFrom(INT64_MIN, INT64_MAX, INT64_MIN - 1n, INT64_MAX + 1n).map(String),
    fc.stringMatching(/^[+-]?0*[0-9]{1,20}$/),
    fc.string(),
  );
  fc.assert(
    fc.property(anyText, (text) => {
      const value = /^-?\d+$/.test(text) ? BigInt(text) : INT64_MAX + 1n;
      const isCanonical = String(value) === text && BigInt.asIntN(64, value) === value;
      expect(parseInt64(text)).toBe(isCanonical ? value : undefined);
    }),
  );
});

describe("a ship date is converted to UTC with three decimals", () => {
  test.each([
    ["2026-11-20t08:30:00z", "2026-11-20T08:30:00.000Z"],
    ["2026-11-20T08:30:00.5Z", "2026-11-20T08:30:00.500Z"],
    ["2026-11-20T08:30:00.123000000Z", "2026-11-20T08:30:00.123Z"],
    ["2026-11-20T08:30:00-00:00", "2026-11-20T08:30:00.000Z"],
    ["2000-02-29T12:00:00Z", "2000-02-29T12:00:00.000Z"],
    ["0001-01-01T00:00:00+01:00", "0000-12-31T23:00:00.000Z"],
    ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
  ])("%s", (text, utc) => {
    expect(shipDateSchema.parse(text)).toBe(utc);
  });

  test("with any offset", () => {
    const instant = fc.date({
      min: new Date("0001-01-01T00:00:00Z"),
      max: new Date("9998-12-31T00:00:00Z"),
      noInvalidDate: true,
    });
    const offset = fc.integer({ min: -1_439, max: 1_439 });
    fc.assert(
      fc.property(instant, offset, (date, minutes) => {
        const local = new Date(date.getTime() + minutes * 60_000).toISOString().slice(0, -1);
        const sign = minutes < 0 ? "-" : "+";
        const [hour, minute] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map(
          (n) => String(n).padStart(2, "0"),
        );
        expect(shipDateSchema.parse(`${local}${sign}${hour}:${minute}`)).toBe(date.toISOString());
      }),
    );
  });

  test.each([
    ["finer than milliseconds", ["2026-11-20T08:30:00.0001Z", "2026-11-20T08:30:00.123456789Z"]],
    ["a leap second", ["2026-11-20T23:59:60Z", "1990-12-31T23:59:60Z"]],
    [
      "no such date",
      [
        "2025-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2026-00-10T12:00:00Z",
        "2026-13-10T12:00:00Z",
        "2026-11-00T12:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T08:60:00Z",
        "2026-11-20T08:30:00+24:00",
        "2026-11-20T08:30:00+01:60",
      ],
    ],
    ["years", ["0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"]],
    [
      "RFC 3339",
      [
        "2026-11-20",
        "2026-11-20T08:30:00",
        "2026-11-20T08:30Z",
        "2026-11-20 08:30:00Z",
        "2026-11-20T08:30:00.Z",
        "2026-11-20T08:30:00,5Z",
        "2026-11-20T08:30:00+0200",
        "+002026-11-20T08:30:00Z",
        " 2026-11-20T08:30:00Z",
        "2026-11-20T08:30:00Z\n",
        "Fri, 20 Nov 2026 08:30:00 GMT",
        "",
      ],
    ],
  ])("or rejected: %s", (reason, texts) => {
    for (const text of texts) {
      const { error } = shipDateSchema.safeParse(text);
      expect(error?.issues[0]?.message, text).toContain(reason);
    }
  });
});
