import fc from "fast-check";
import { expect, test } from "vitest";
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

test.each([
  ["2026-11-20t08:30:00z", "2026-11-20T08:30:00.000Z"],
  ["2026-11-20T08:30:00.5-00:30", "2026-11-20T09:00:00.500Z"],
  ["2024-02-29T12:00:00.123000+01:00", "2024-02-29T11:00:00.123Z"],
  ["0001-01-01T00:00:00+23:59", "0000-12-31T00:01:00.000Z"],
  ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
])("the ship date %s is converted to UTC with three decimals", (text, utc) => {
  expect(shipDateSchema.parse(text)).toBe(utc);
});

test.each([
  ["finer than milliseconds", "2026-11-20T08:30:00.0001Z"],
  ["a leap second", "1990-12-31T23:59:60Z"],
  ["no such date", "2025-02-29T12:00:00Z 2026-13-10T12:00:00Z 2026-11-20T24:00:00Z"],
  ["no such date", "2026-11-20T08:30:00+24:00 2026-11-20T08:30:00+01:60"],
  ["years", "0000-01-01T00:00:00+00:01 9999-12-31T23:59:59-00:01"],
  ["RFC 3339", "2026-11-20 2026-11-20T08:30:00 2026-11-20T08:30Z 2026-11-20T08:30:00,5Z"],
  ["RFC 3339", "2026-11-20T08:30:00+0200 +002026-11-20T08:30:00Z"],
])("a ship date is refused with the reason %s: %s", (reason, texts) => {
  for (const text of texts.split(" ")) {
    const { error } = shipDateSchema.safeParse(text);
    expect(error?.issues[0]?.message, text).toContain(reason);
  }
});
