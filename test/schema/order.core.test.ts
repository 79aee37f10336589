import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN, parseInt64 } from "../../src/worker/orders/int64.ts";
import { orderIdSchema, orderRecordSchema, shipDateSchema } from "../../src/schema/order.ts";

const anyInt64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });

describe("an int64 in canonical decimal", () => {
  test("is parsed to the same value", () => {
    fc.assert(
      fc.property(anyInt64, (value) => {
        expect(parseInt64(String(value))).toBe(value);
        expect(orderIdSchema.parse(String(value))).toBe(value);
      }),
    );
  });

  test("has exactly one spelling", () => {
    const spelling = fc.stringMatching(/^[+-]?0*[0-9]{1,20}$/);
    fc.assert(
      fc.property(spelling, (text) => {
        const value = parseInt64(text);
        if (value !== undefined) expect(String(value)).toBe(text);
      }),
    );
  });

  test("is rejected if it has more than 64 bits", () => {
    const outside = fc.oneof(
      fc.bigInt({ min: INT64_MAX + 1n, max: 2n ** 80n }),
      fc.bigInt({ min: -(2n ** 80n), max: INT64_MIN - 1n }),
    );
    fc.assert(
      fc.property(outside, (value) => {
        expect(parseInt64(String(value))).toBeUndefined();
        expect(orderIdSchema.safeParse(String(value)).success).toBe(false);
      }),
    );
  });

  test("is the only form that is accepted", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(!/^(?:0|-?[1-9][0-9]*)$/.test(text));
        expect(parseInt64(text)).toBeUndefined();
      }),
    );
  });
});

describe("a ship date is converted to UTC with three decimals", () => {
  test.each([
    ["2026-11-20T08:30:00Z", "2026-11-20T08:30:00.000Z"],
    ["2026-11-20t08:30:00z", "2026-11-20T08:30:00.000Z"],
    ["2026-11-20T08:30:00.5Z", "2026-11-20T08:30:00.500Z"],
    ["2026-11-20T08:30:00.123000000Z", "2026-11-20T08:30:00.123Z"],
    ["2026-11-20T08:30:00+02:00", "2026-11-20T06:30:00.000Z"],
    ["2026-11-20T08:30:00-00:00", "2026-11-20T08:30:00.000Z"],
    ["2026-01-01T00:30:00+05:45", "2025-12-31T18:45:00.000Z"],
    ["2026-12-31T23:00:00-23:59", "2027-01-01T22:59:00.000Z"],
    ["2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000Z"],
    ["2000-02-29T12:00:00Z", "2000-02-29T12:00:00.000Z"],
    ["0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"],
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
    ["finer than milliseconds", "2026-11-20T08:30:00.0001Z"],
    ["finer than milliseconds", "2026-11-20T08:30:00.123456789Z"],
    ["no such date", "2025-02-29T12:00:00Z"],
    ["no such date", "1900-02-29T12:00:00Z"],
    ["no such date", "2026-04-31T12:00:00Z"],
    ["no such date", "2026-00-10T12:00:00Z"],
    ["no such date", "2026-13-10T12:00:00Z"],
    ["no such date", "2026-11-00T12:00:00Z"],
    ["no such date", "2026-11-20T24:00:00Z"],
    ["no such date", "2026-11-20T25:00:00Z"],
    ["no such date", "2026-11-20T08:60:00Z"],
    ["no such date", "2026-11-20T23:59:60Z"],
    ["no such date", "2026-11-20T08:30:00+24:00"],
    ["no such date", "2026-11-20T08:30:00+01:60"],
    ["years", "0000-01-01T00:00:00+00:01"],
    ["years", "9999-12-31T23:59:59-00:01"],
    ["RFC 3339", "2026-11-20"],
    ["RFC 3339", "2026-11-20T08:30:00"],
    ["RFC 3339", "2026-11-20T08:30Z"],
    ["RFC 3339", "2026-11-20 08:30:00Z"],
    ["RFC 3339", "2026-11-20T08:30:00.Z"],
    ["RFC 3339", "2026-11-20T08:30:00,5Z"],
    ["RFC 3339", "2026-11-20T08:30:00+0200"],
    ["RFC 3339", "+002026-11-20T08:30:00Z"],
    ["RFC 3339", " 2026-11-20T08:30:00Z"],
    ["RFC 3339", "2026-11-20T08:30:00Z\n"],
    ["RFC 3339", "20261120T083000Z"],
    ["RFC 3339", "Fri, 20 Nov 2026 08:30:00 GMT"],
    ["RFC 3339", ""],
  ])("or rejected: %s (%j)", (reason, text) => {
    const { error } = shipDateSchema.safeParse(text);
    expect(error?.issues[0]?.message).toContain(reason);
  });
});

describe("an order record", () => {
  test("keeps exactly the fields that it has, and is pending by default", () => {
    expect(orderRecordSchema.parse({ id: 1n })).toStrictEqual({ id: 1n, status: "pending" });
    const whole = {
      id: INT64_MIN,
      petId: INT64_MAX,
      quantity: 0n,
      shipDate: "2026-11-20T08:30:00.000Z",
      complete: false,
      status: "shipped",
    };
    expect(orderRecordSchema.parse(whole)).toStrictEqual(whole);
  });

  test.each([
    ["no id", {}],
    ["null", { id: null }],
    ["a null field", { id: 1n, petId: null }],
    ["an unknown field", { id: 1n, colour: "red" }],
    ["an id beyond int64", { id: INT64_MAX + 1n }],
    ["a number that is not an integer", { id: 1n, quantity: 1.5 }],
    ["text instead of a number", { id: 1n, petId: "1" }],
    ["text instead of a boolean", { id: 1n, complete: "true" }],
    ["a number instead of a date", { id: 1n, shipDate: 0n }],
    ["a status that only the database sets", { id: 1n, status: "cancelled" }],
    ["a status in capitals", { id: 1n, status: "PENDING" }],
    ["an array", [1n]],
  ])("is rejected with %s", (_, value) => {
    expect(orderRecordSchema.safeParse(value).success).toBe(false);
  });
});
